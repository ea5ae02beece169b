#include "daemon/wire/segment.h"

#include <errno.h>
#include <fcntl.h>
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

/* Differences of such times, and their sums with a time of CLOCK_MONOTONIC, fit into 64 bits. */
#define EARLIEST (-(INT64_C(1) << 60))
#define LATEST   (INT64_C(1) << 62)

static bool is_time(int64_t time) { return time >= EARLIEST && time <= LATEST; }

static bool is_sound(const struct segment_index *index, const struct segment_entry *entry) {
  uint64_t size = (uint64_t)index->size;
  return entry->bytes > 0 && entry->bytes >= index->head.payload && entry->bytes <= size &&
         entry->offset <= size - entry->bytes && is_time(entry->stamp) && is_time(entry->came);
}

/* Reads the block with this entry. */
static bool read_block(struct segment_index *index, uint64_t number) {
  unsigned char bytes[SEGMENT_BLOCK * sizeof(struct segment_entry)];
  const size_t size = index->head.entry_bytes;
  index->first = number - number % SEGMENT_BLOCK;
  index->have = 0;
  ssize_t got = pread(index->fd, bytes, SEGMENT_BLOCK * size, (off_t)(sizeof index->head + index->first * size));
  index->have = got > 0 ? (unsigned)((size_t)got / size) : 0;
  for (unsigned i = 0; i < index->have; i++) {
    index->block[i] = (struct segment_entry){0};
    memcpy(&index->block[i], bytes + i * size, size);
    if (!is_time(index->block[i].deadline)) {
      index->block[i].deadline = 0;
    }
  }
  return number - index->first < index->have;
}

static bool has_entry(struct segment_index *index, uint64_t number) {
  return (number >= index->first && number - index->first < index->have) || read_block(index, number);
}

/* Each entry has its own bytes in the data, so the size of the data limits their number. */
bool segment_index_open(struct segment_index *index, int fd, int64_t size) {
  struct stat status;
  index->fd = fd;
  index->size = size;
  index->count = index->first = index->have = 0;
  index->end = 0;
  if (size < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !segment_read_head(fd, &index->head)) {
    return false;
  }
  uint64_t count = ((uint64_t)status.st_size - sizeof index->head) / index->head.entry_bytes;
  uint64_t room = (uint64_t)size / (index->head.payload > 0 ? index->head.payload : 1);
  for (count = count < room ? count : room; count > 0; count--) {
    const struct segment_entry *entry = &index->block[(count - 1) % SEGMENT_BLOCK];
    if (has_entry(index, count - 1) && is_sound(index, entry)) {
      index->count = count;
      index->end = (int64_t)(entry->offset + entry->bytes);
      break;
    }
  }
  return true;
}

bool segment_index_read(struct segment_index *index, uint64_t number, struct segment_entry *entry) {
  if (number >= index->count || !has_entry(index, number)) {
    return false;
  }
  *entry = index->block[number - index->first];
  return is_sound(index, entry);
}

/* -- finishing a segment ----------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool segment_failed(char problem[SEGMENT_PROBLEM], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(problem, SEGMENT_PROBLEM, format, arguments);
  va_end(arguments);
  return false;
}

int segment_open_part(const struct folder_entry *part, int flags) {
  int fd = folder_open_file(part, "", flags);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

/* The path without ".part", and its entry. Returns false if it has no such ending or is too long. */
static bool final_name(const struct folder_entry *part, char path[PATH_MAX], struct folder_entry *final) {
  size_t length = strlen(part->path), suffix = strlen(SEGMENT_PART);
  if (strlen(part->name) <= suffix || length >= PATH_MAX || strcmp(part->path + length - suffix, SEGMENT_PART) != 0) {
    return false;
  }
  memcpy(path, part->path, length - suffix);
  path[length - suffix] = '\0';
  *final = folder_sibling(part, path, path + (part->name - part->path));
  return true;
}

/* The process may have been killed after it renamed the index and before it renamed the data. */
int segment_open_index(const struct folder_entry *part, int flags) {
  char path[PATH_MAX];
  struct folder_entry final;
  int fd = folder_open_file(part, SEGMENT_INDEX, flags);
  if (fd >= 0 || errno != ENOENT || !final_name(part, path, &final)) {
    return fd;
  }
  return folder_open_file(&final, SEGMENT_INDEX, flags & ~O_CREAT);
}

void segment_remove(const struct folder_entry *part) {
  folder_remove(part, "");
  folder_remove(part, SEGMENT_INDEX);
}

static bool rename_files(const struct folder_entry *part, const struct folder_entry *final, char problem[SEGMENT_PROBLEM]) {
  struct stat there;
  bool was_named = !folder_look(part, SEGMENT_INDEX, &there) && folder_look(final, SEGMENT_INDEX, &there);
  return ((was_named || folder_rename(part, SEGMENT_INDEX, final, SEGMENT_INDEX)) && folder_rename(part, "", final, "") &&
          folder_sync(final)) ||
         segment_failed(problem, "'%s' cannot be renamed to '%s': %s", part->path, final->path, strerror(errno));
}

/* Keeps the time of the last write, which is the time of the segment also if a later process finishes it. */
static bool cut_data(int fd, const struct stat *status, int64_t end) {
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, status->st_mtim};
  if (status->st_size > end && ftruncate(fd, end) != 0) {
    return false;
  }
  if (status->st_size > end) {
    futimens(fd, times);
  }
  return true;
}

bool segment_close(const struct folder_entry *part, int fd, int index, struct segment_closed *closed,
                   char problem[SEGMENT_PROBLEM]) {
  struct segment_index reading;
  struct folder_entry final;
  struct stat status;
  *closed = (struct segment_closed){0};
  if (!final_name(part, closed->name, &final)) {
    return segment_failed(problem, "'%s' does not end with " SEGMENT_PART, part->path);
  }
  if (index < 0 || fstat(fd, &status) != 0 || !segment_index_open(&reading, index, status.st_size)) {
    return segment_failed(problem, "'%s' has no index, so that nobody knows where its last result ends", part->path);
  }
  closed->entries = reading.count;
  closed->cut = status.st_size - reading.end;
  if (closed->entries == 0) {
    closed->name[0] = '\0';
    segment_remove(part);
    return true;
  }
  if (!cut_data(fd, &status, reading.end) ||
      ftruncate(index, (off_t)(sizeof reading.head + closed->entries * reading.head.entry_bytes)) != 0 || fsync(index) != 0 ||
      fsync(fd) != 0) {
    return segment_failed(problem, "'%s' cannot be finished: %s", part->path, strerror(errno));
  }
  return rename_files(part, &final, problem);
}

bool segment_repair(const struct folder_entry *part, struct segment_closed *closed, char problem[SEGMENT_PROBLEM]) {
  int fd = segment_open_part(part, O_RDWR);
  if (fd < 0) {
    return segment_failed(problem, errno == EWOULDBLOCK ? "'%s' is being written" : "'%s' cannot be opened: %s", part->path,
                          folder_problem(errno));
  }
  int index = segment_open_index(part, O_RDWR);
  bool is_closed = segment_close(part, fd, index, closed, problem);
  if (index >= 0) {
    close(index);
  }
  close(fd);
  return is_closed;
}
