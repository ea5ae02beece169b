#include "daemon/wire/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct segment_head) == 128, "layout");
_Static_assert(sizeof(struct segment_entry) == 72, "layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "an index is written as it lies in memory");

/* -- the index --------------------------------------------------------------------------------------------------------- */

/* Bytes of an entry in each version. */
static const size_t entry_sizes[SEGMENT_VERSION + 1] = {
    [1] = offsetof(struct segment_entry, epoch), [SEGMENT_VERSION] = sizeof(struct segment_entry)};

bool segment_read_head(int index, struct segment_head *head) {
  return pread(index, head, sizeof *head, 0) == (ssize_t)sizeof *head && head->magic == SEGMENT_MAGIC && head->version > 0 &&
         head->version <= SEGMENT_VERSION && head->entry_bytes == entry_sizes[head->version];
}

bool segment_read_entry(int index, const struct segment_head *head, uint64_t number, struct segment_entry *entry) {
  off_t at = (off_t)(sizeof *head + number * head->entry_bytes);
  entry->epoch = 0;
  return pread(index, entry, head->entry_bytes, at) == (ssize_t)head->entry_bytes;
}

uint64_t segment_count(int index, const struct segment_head *head, int64_t size, int64_t *end) {
  struct segment_entry entry;
  struct stat status;
  bool is_known = fstat(index, &status) == 0 && status.st_size > (off_t)sizeof *head;
  uint64_t count = is_known ? ((uint64_t)status.st_size - sizeof *head) / head->entry_bytes : 0;
  for (*end = 0; count > 0; count--) {
    bool is_read = segment_read_entry(index, head, count - 1, &entry) && entry.offset <= INT64_MAX && entry.bytes <= INT64_MAX;
    if (is_read && entry.offset + entry.bytes <= (uint64_t)size) {
      *end = (int64_t)(entry.offset + entry.bytes);
      return count;
    }
  }
  return 0;
}

/* -- its end ----------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool segment_failed(char problem[SEGMENT_PROBLEM], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(problem, SEGMENT_PROBLEM, format, arguments);
  va_end(arguments);
  return false;
}

int segment_open_part(const char *part, int flags) {
  int fd = open(part, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0666);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

/* The name without ".part". False: it has none, or is too long. */
static bool final_name(const char *part, char name[PATH_MAX]) {
  size_t length = strlen(part), suffix = strlen(SEGMENT_PART);
  if (length <= suffix || length + sizeof SEGMENT_INDEX > PATH_MAX || strcmp(part + length - suffix, SEGMENT_PART) != 0) {
    return false;
  }
  memcpy(name, part, length - suffix);
  name[length - suffix] = '\0';
  return true;
}

/* A process may have been killed when the index had its name and the data had not. */
int segment_open_index(const char *part, int flags) {
  char name[PATH_MAX], path[PATH_MAX + sizeof SEGMENT_INDEX];
  snprintf(path, sizeof path, "%s%s", part, SEGMENT_INDEX);
  int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd >= 0 || errno != ENOENT || !final_name(part, name)) {
    return fd;
  }
  snprintf(path, sizeof path, "%s%s", name, SEGMENT_INDEX);
  return open(path, flags | O_CLOEXEC | O_NOFOLLOW);
}

static bool sync_folder(const char *path) {
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", path);
  int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool is_done = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  if (fd >= 0) {
    close(fd);
  }
  return is_done;
}

/* Never over what has that name. A file system that cannot promise that has no such flag. */
static bool rename_to(const char *from, const char *to) {
  struct stat there;
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 ||
         (errno == EINVAL && lstat(to, &there) != 0 && rename(from, to) == 0);
}

void segment_remove(const char *part) {
  char path[PATH_MAX + sizeof SEGMENT_INDEX];
  snprintf(path, sizeof path, "%s%s", part, SEGMENT_INDEX);
  unlink(part);
  unlink(path);
}

static bool give_names(const char *part, const char *name, char problem[SEGMENT_PROBLEM]) {
  char from[PATH_MAX + sizeof SEGMENT_INDEX], to[PATH_MAX + sizeof SEGMENT_INDEX];
  snprintf(from, sizeof from, "%s%s", part, SEGMENT_INDEX);
  snprintf(to, sizeof to, "%s%s", name, SEGMENT_INDEX);
  struct stat there;
  bool was_named = lstat(from, &there) != 0 && lstat(to, &there) == 0;
  return ((was_named || rename_to(from, to)) && rename_to(part, name) && sync_folder(name)) ||
         segment_failed(problem, "'%s' cannot be renamed to '%s': %s", part, name, strerror(errno));
}

bool segment_close(const char *part, int fd, int index, struct segment_closed *closed, char problem[SEGMENT_PROBLEM]) {
  struct segment_head head;
  struct stat status;
  int64_t end;
  *closed = (struct segment_closed){0};
  if (!final_name(part, closed->name)) {
    return segment_failed(problem, "'%s' does not end with " SEGMENT_PART, part);
  }
  if (index < 0 || !segment_read_head(index, &head) || fstat(fd, &status) != 0) {
    return segment_failed(problem, "'%s' has no index, so that nobody knows where its last result ends", part);
  }
  closed->entries = segment_count(index, &head, status.st_size, &end);
  closed->cut = status.st_size - end;
  if (closed->entries == 0) {
    closed->name[0] = '\0';
    segment_remove(part);
    return true;
  }
  if ((closed->cut > 0 && ftruncate(fd, end) != 0) ||
      ftruncate(index, (off_t)(sizeof head + closed->entries * head.entry_bytes)) != 0 || fsync(index) != 0 || fsync(fd) != 0) {
    return segment_failed(problem, "'%s' cannot be finished: %s", part, strerror(errno));
  }
  return give_names(part, closed->name, problem);
}

bool segment_repair(const char *part, struct segment_closed *closed, char problem[SEGMENT_PROBLEM]) {
  int fd = segment_open_part(part, O_RDWR);
  if (fd < 0) {
    return segment_failed(problem, errno == EWOULDBLOCK ? "'%s' is being written" : "'%s' cannot be opened: %s", part,
                          strerror(errno));
  }
  int index = segment_open_index(part, O_RDWR);
  bool is_closed = segment_close(part, fd, index, closed, problem);
  if (index >= 0) {
    close(index);
  }
  close(fd);
  return is_closed;
}
