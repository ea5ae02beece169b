#include "daemon/wire/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINKS = 16, OPEN_FOLDER = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

struct walk {
  int folder;
  bool make, guarded;
  unsigned links;
};

static bool walk_path(struct walk *walk, const char *path, size_t length);

/* -- walking to a folder ----------------------------------------------------------------------------------------------- */

static void walk_to(struct walk *walk, int folder) {
  if (walk->folder >= 0) {
    close(walk->folder);
  }
  walk->folder = folder;
}

static bool is_trusted(uid_t owner) { return owner == 0 || owner == geteuid(); }

/* True if no other user may replace entries of the folder. With the sticky bit, users replace only their own. */
static bool is_guarded(int folder) {
  struct stat status;
  return fstat(folder, &status) == 0 && is_trusted(status.st_uid) &&
         ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status.st_mode & S_ISVTX) != 0);
}

/* Examines and reads the link by its descriptor, so that a change of its name does not matter. */
static bool follow(struct walk *walk, const char *name) {
  char target[PATH_MAX];
  struct stat status;
  int link = openat(walk->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (link < 0) {
    return false;
  }
  bool is_known = fstat(link, &status) == 0;
  ssize_t length = is_known && S_ISLNK(status.st_mode) ? readlinkat(link, "", target, sizeof target) : -1;
  close(link);
  if (length < 0 || length == (ssize_t)sizeof target) {
    errno = ENOTDIR;
    return false;
  }
  if (!is_trusted(status.st_uid) || ++walk->links > MOST_LINKS) {
    errno = ELOOP;
    return false;
  }
  return walk_path(walk, target, (size_t)length);
}

/* O_DIRECTORY also triggers an automount, which O_PATH alone does not. */
static bool walk_step(struct walk *walk, const char *name) {
  walk->guarded = walk->guarded && is_guarded(walk->folder);
  int folder = openat(walk->folder, name, OPEN_FOLDER);
  if (folder < 0 && errno == ENOENT && walk->make) {
    folder = mkdirat(walk->folder, name, 0777) == 0 || errno == EEXIST ? openat(walk->folder, name, OPEN_FOLDER) : -1;
  }
  if (folder < 0) {
    return errno == ENOTDIR && follow(walk, name);
  }
  walk_to(walk, folder);
  return true;
}

static bool walk_path(struct walk *walk, const char *path, size_t length) {
  const char *end = path + length;
  if (length > 0 && *path == '/') {
    walk_to(walk, open("/", OPEN_FOLDER));
  }
  while (path < end && walk->folder >= 0) {
    char name[FOLDER_NAME];
    const char *slash = memchr(path, '/', (size_t)(end - path));
    size_t part = (size_t)((slash ? slash : end) - path);
    if (part >= sizeof name) {
      errno = ENAMETOOLONG;
      return false;
    }
    memcpy(name, path, part);
    name[part] = '\0';
    path += part + (slash != NULL);
    if (part > 0 && strcmp(name, ".") != 0 && !walk_step(walk, name)) {
      return false;
    }
  }
  return walk->folder >= 0;
}

static bool walk_from_here(struct walk *walk, const char *path, size_t length) {
  walk->folder = open(".", OPEN_FOLDER);
  bool is_there = walk->folder >= 0 && walk_path(walk, path, length);
  int error = errno;
  if (!is_there) {
    walk_to(walk, -1);
  }
  errno = error;
  return is_there;
}

bool folder_find(const char *path, bool make, struct folder_entry *entry) {
  struct walk walk = {.make = make, .guarded = true};
  const char *slash = strrchr(path, '/');
  *entry = (struct folder_entry){.folder = -1, .path = path, .name = slash ? slash + 1 : path};
  if (entry->name[0] == '\0') {
    errno = EISDIR;
    return false;
  }
  bool is_there = walk_from_here(&walk, path, (size_t)(entry->name - path));
  entry->folder = walk.folder;
  entry->guarded = walk.guarded;
  return is_there;
}

int folder_open(const char *path) {
  struct walk walk = {.guarded = true};
  return walk_from_here(&walk, path, strlen(path)) ? walk.folder : -1;
}

void folder_leave(struct folder_entry *entry) {
  if (entry->folder >= 0) {
    close(entry->folder);
  }
  entry->folder = -1;
}

/* -- files in a folder ------------------------------------------------------------------------------------------------- */

static bool full_name(const struct folder_entry *entry, const char *suffix, char name[FOLDER_NAME]) {
  bool fits = snprintf(name, FOLDER_NAME, "%s%s", entry->name, suffix) < FOLDER_NAME;
  errno = fits ? errno : ENAMETOOLONG;
  return fits;
}

int folder_open_file(const struct folder_entry *entry, const char *suffix, int flags) {
  char name[FOLDER_NAME];
  struct stat status;
  if (!full_name(entry, suffix, name)) {
    return -1;
  }
  int fd = openat(entry->folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  bool is_known = fd >= 0 && fstat(fd, &status) == 0;
  if (fd >= 0 && (!is_known || !S_ISREG(status.st_mode))) {
    int error = is_known ? EMEDIUMTYPE : errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

bool folder_look(const struct folder_entry *entry, const char *suffix, struct stat *status) {
  char name[FOLDER_NAME];
  return full_name(entry, suffix, name) && fstatat(entry->folder, name, status, AT_SYMLINK_NOFOLLOW) == 0;
}

bool folder_remove(const struct folder_entry *entry, const char *suffix) {
  char name[FOLDER_NAME];
  return full_name(entry, suffix, name) && unlinkat(entry->folder, name, 0) == 0;
}

bool folder_rename(const struct folder_entry *entry, const char *suffix, const struct folder_entry *to, const char *to_suffix) {
  char from_name[FOLDER_NAME], to_name[FOLDER_NAME];
  struct stat there;
  if (!full_name(entry, suffix, from_name) || !full_name(to, to_suffix, to_name)) {
    return false;
  }
  return renameat2(entry->folder, from_name, to->folder, to_name, RENAME_NOREPLACE) == 0 ||
         (errno == EINVAL && !folder_look(to, to_suffix, &there) &&
          renameat(entry->folder, from_name, to->folder, to_name) == 0);
}

bool folder_sync(const struct folder_entry *entry) {
  int fd = openat(entry->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool is_done = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  int error = errno;
  if (fd >= 0) {
    close(fd);
  }
  errno = error;
  return is_done;
}

const char *folder_problem(int error) {
  return error == ELOOP         ? "another user's symbolic link is in its place or leads there"
         : error == EMEDIUMTYPE ? "it is no regular file"
                                : strerror(error);
}
