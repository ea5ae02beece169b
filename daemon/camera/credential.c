#include "daemon/camera/credential.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/quote.h"

#define REMEDY "chown root:framed FILE and chmod 0640 FILE, or chmod 0600 for the daemon's own user"

/* Root checks the files of another user's daemon. */
static bool may_be_used(const char *path, const struct stat *file, struct failure *failure) {
  const uid_t self = geteuid();
  if (!S_ISREG(file->st_mode)) {
    return failure_set(failure, EXIT_STATUS_CONFIG, NULL, "'%s' is no regular file", path);
  }
  if (file->st_uid != 0 && self != 0 && file->st_uid != self) {
    return failure_set(failure, EXIT_STATUS_CONFIG, REMEDY, "'%s' belongs to user %u, who could change it", path,
                       (unsigned)file->st_uid);
  }
  if (file->st_mode & (S_IXUSR | S_IWGRP | S_IXGRP | S_IRWXO)) {
    return failure_set(failure, EXIT_STATUS_CONFIG, REMEDY, "'%s' has mode %04o, which lets others read or change it", path,
                       (unsigned)file->st_mode & 07777);
  }
  if ((file->st_mode & S_IRGRP) && self != 0 && file->st_gid != 0 && file->st_gid != getegid() && !group_member(file->st_gid)) {
    return failure_set(failure, EXIT_STATUS_CONFIG, REMEDY, "group %u, which is not the daemon's, may read '%s'",
                       (unsigned)file->st_gid, path);
  }
  return true;
}

static bool take(const char *path, char *text, ssize_t length, struct credential *credential, struct failure *failure) {
  size_t size = length > 0 ? (size_t)length : 0;
  size -= size > 0 && text[size - 1] == '\n';
  size -= size > 0 && text[size - 1] == '\r';
  const char *colon = memchr(text, ':', size);
  if (!colon || !quote_is_printable(text, size) || memchr(text, '\n', size)) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "write USER:PASSWORD on one line",
                       "'%s' is not one line with a user and a password", path);
  }
  memcpy(credential->user, text, (size_t)(colon - text));
  memcpy(credential->password, colon + 1, size - (size_t)(colon + 1 - text));
  return true;
}

bool credential_read(const char *name, struct credential *credential, struct failure *failure) {
  char path[PATH_MAX], text[CREDENTIAL_BYTES];
  struct stat file;
  *credential = (struct credential){{0}, {0}};
  config_credentials_path(name, path, sizeof path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &file) != 0) {
    int error = errno;
    if (fd >= 0) {
      close(fd);
    }
    return failure_set_system(failure, error, error == ENOENT ? "put USER:PASSWORD into it, mode 0640, group framed" : NULL,
                              "cannot read the credentials '%s'", path);
  }
  bool taken = may_be_used(path, &file, failure);
  if (taken) {
    ssize_t length = read(fd, text, sizeof text);
    if (length < 0) {
      taken = failure_set_system(failure, errno, NULL, "cannot read the credentials '%s'", path);
    } else if (length == (ssize_t)sizeof text) {
      taken = failure_set(failure, EXIT_STATUS_CONFIG, NULL, "'%s' has more than %d bytes", path, CREDENTIAL_BYTES - 1);
    } else {
      taken = take(path, text, length, credential, failure);
    }
    explicit_bzero(text, sizeof text);
  }
  close(fd);
  return taken;
}

void credential_clear(struct credential *credential) { explicit_bzero(credential, sizeof *credential); }

void credential_identify(const char *name, struct file_identity *identity) {
  char path[PATH_MAX];
  struct stat file;
  *identity = (struct file_identity){0};
  if (name) {
    config_credentials_path(name, path, sizeof path);
  }
  if (name && stat(path, &file) == 0) {
    *identity = (struct file_identity){.device = file.st_dev,
                                       .inode = file.st_ino,
                                       .size = (uint64_t)file.st_size,
                                       .seconds = (uint64_t)file.st_mtim.tv_sec,
                                       .nanoseconds = (uint64_t)file.st_mtim.tv_nsec};
  }
}
