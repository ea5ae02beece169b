#include "daemon/client/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/measure/clock.h"

static _Atomic int64_t asked;

int64_t endpoint_asked(void) { return atomic_load(&asked); }

static bool cannot_open(const char *path, int error, struct failure *failure) {
  return failure_set_system(failure, error, NULL, "cannot open '%s'", path);
}

/* Other processes share standard input and output with their flags. So a pipe or terminal is opened again where the kernel
 * allows, and only this descriptor becomes non-blocking. Otherwise it is duplicated. */
static int open_standard(int number, int flags) {
  struct stat status;
  if (fstat(number, &status) != 0) {
    return -1;
  }
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0) {
      return fd;
    }
  }
  return fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

static bool standard(int number, int flags, const char *name, struct endpoint *endpoint, struct failure *failure) {
  endpoint->fd = open_standard(number, flags);
  if (endpoint->fd < 0) {
    return cannot_open(name, errno, failure);
  }
  struct stat status;
  endpoint->kind = fstat(endpoint->fd, &status) == 0 && S_ISREG(status.st_mode) ? ENDPOINT_FILE : ENDPOINT_ONCE;
  return true;
}

/* Opens `path` and finds its kind. Refuses a directory. */
static bool open_path(const char *path, int flags, struct endpoint *endpoint, struct failure *failure) {
  atomic_store(&asked, clock_now());
  endpoint->fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666);
  atomic_store(&asked, 0);
  if (endpoint->fd < 0) {
    return cannot_open(path, errno, failure);
  }
  struct stat status;
  if (fstat(endpoint->fd, &status) != 0) {
    int error = errno;
    endpoint_close(endpoint);
    return cannot_open(path, error, failure);
  }
  if (S_ISDIR(status.st_mode)) {
    endpoint_close(endpoint);
    return cannot_open(path, EISDIR, failure);
  }
  endpoint->kind = S_ISFIFO(status.st_mode)                             ? ENDPOINT_FIFO
                   : S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) ? ENDPOINT_FILE
                                                                        : ENDPOINT_ONCE;
  return true;
}

static bool refuse_socket(const char *path, struct failure *failure) {
  return failure_set(failure, EXIT_STATUS_CONFIG, "use 'socket:' to listen there", "'%s' is a socket, not a file", path);
}

bool endpoint_open_source(const struct config_source *source, struct endpoint *endpoint, struct failure *failure) {
  *endpoint = (struct endpoint){.fd = -1};
  if (strcmp(source->path, "-") == 0) {
    return standard(STDIN_FILENO, O_RDONLY, "standard input", endpoint, failure);
  }
  struct stat there;
  if (stat(source->path, &there) == 0 && S_ISSOCK(there.st_mode)) {
    return refuse_socket(source->path, failure);
  }
  return open_path(source->path, O_RDONLY, endpoint, failure);
}

static bool endpoint_open_fifo(const char *path, struct endpoint *endpoint, struct failure *failure) {
  endpoint->kind = ENDPOINT_FIFO;
  endpoint->fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  return endpoint->fd >= 0 || errno == ENXIO /* it has no reader yet */ || cannot_open(path, errno, failure);
}

bool endpoint_open_sink(const struct config_sink *sink, struct endpoint *endpoint, struct failure *failure) {
  *endpoint = (struct endpoint){.fd = -1};
  if (strcmp(sink->path, "-") == 0) {
    return standard(STDOUT_FILENO, O_WRONLY, "standard output", endpoint, failure);
  }
  struct stat there;
  if (stat(sink->path, &there) != 0 || S_ISREG(there.st_mode)) {
    return open_path(sink->path, O_RDWR | O_CREAT, endpoint, failure);
  }
  if (S_ISSOCK(there.st_mode)) {
    return refuse_socket(sink->path, failure);
  }
  return S_ISFIFO(there.st_mode) ? endpoint_open_fifo(sink->path, endpoint, failure)
                                 : open_path(sink->path, O_WRONLY, endpoint, failure);
}

/* True if the path names a file in a directory, and not a descriptor by its number like /dev/fd/3. After a handover that number
 * may be any other file. */
static bool endpoint_is_name(const char *path) {
  char *resolved = realpath(path, NULL);
  free(resolved);
  return resolved != NULL;
}

bool endpoint_has_moved(const char *path, int fd, bool *gone) {
  struct stat named, opened;
  bool is_named = stat(path, &named) == 0;
  *gone = !is_named && errno == ENOENT;
  return is_named && endpoint_is_name(path) && fstat(fd, &opened) == 0 &&
         (named.st_mode & S_IFMT) == (opened.st_mode & S_IFMT) &&
         (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino);
}

bool endpoint_open_next(const struct config_sink *sink, struct endpoint *endpoint, struct failure *failure) {
  struct stat opened;
  if (!endpoint_open_fifo(sink->path, endpoint, failure)) {
    return false;
  }
  if (endpoint->fd >= 0 && (fstat(endpoint->fd, &opened) != 0 || !S_ISFIFO(opened.st_mode))) {
    endpoint_close(endpoint);
    return failure_set(failure, EXIT_STATUS_CONFIG, NULL, "'%s' is no FIFO any more", sink->path);
  }
  return true;
}

void endpoint_close(struct endpoint *endpoint) {
  if (endpoint->fd >= 0) {
    close(endpoint->fd);
  }
  endpoint->fd = -1;
}
