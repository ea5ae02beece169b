#include "daemon/sink/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/measure/clock.h"
#include "daemon/sink/listing.h"

enum { MOST_NAMESAKES = 10000 };

void segments_drop(struct segment_files *files) {
  if (files->data >= 0) {
    close(files->data);
  }
  if (files->index >= 0) {
    close(files->index);
  }
  *files = SEGMENT_FILES_NONE;
}

/* -- names ------------------------------------------------------------------------------------------------------------- */

/* The extension of the last part of a path, or its end. */
static const char *extension_of(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  return dot && dot > name ? dot : path + strlen(path);
}

/* -- a new segment ------------------------------------------------------------------------------------------------------- */

/* True if the name is in use, or its index still exists because it was in use a moment ago. */
static bool is_taken(const struct folder_entry *name) {
  struct stat there;
  return folder_look(name, "", &there) || folder_look(name, SEGMENT_INDEX, &there);
}

/* Before this file was locked, a sweep may have removed it as abandoned. Then it has no name and another is tried. */
static bool open_data(const struct folder_entry *part, struct segment_files *files) {
  struct stat made;
  files->data = segment_open_part(part, O_RDWR | O_CREAT | O_EXCL);
  bool is_swept = files->data < 0 ? errno == EWOULDBLOCK : fstat(files->data, &made) == 0 && made.st_nlink == 0;
  if (is_swept) {
    segments_drop(files);
    errno = EEXIST;
  }
  return files->data >= 0;
}

static bool write_head(const struct config_pipeline *config, uint64_t payload, int index) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  struct segment_head head = {.magic = SEGMENT_MAGIC,
                              .version = SEGMENT_VERSION,
                              .entry_bytes = sizeof(struct segment_entry),
                              .began = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec,
                              .payload = payload};
  listing_owner(config, head.owner);
  ssize_t written = pwrite(index, &head, sizeof head, 0);
  errno = written >= 0 ? ENOSPC : errno;
  return written == (ssize_t)sizeof head;
}

/* Makes the files in an open folder. An index without its data was left by a kill. */
static bool make_files(const struct config_pipeline *config, const struct folder_entry *name, const struct folder_entry *part,
                       uint64_t payload, struct segment_files *files) {
  if (!open_data(part, files)) {
    return false;
  }
  bool is_made = false, is_there = is_taken(name); /* checked last, because another process may just have got that name */
  if (!is_there) {
    folder_remove(part, SEGMENT_INDEX);
    files->index = folder_open_file(part, SEGMENT_INDEX, O_RDWR | O_CREAT | O_EXCL);
    is_made = files->index >= 0 && write_head(config, payload, files->index);
  }
  if (!is_made) {
    int error = is_there ? EEXIST : errno == EEXIST ? EACCES /* it cannot be removed */ : errno;
    segment_remove(part);
    segments_drop(files);
    errno = error;
  }
  return is_made;
}

/* Tries the n-th name for this time. */
static bool open_name(const struct config_pipeline *config, const char *path, unsigned number, uint64_t payload,
                      struct segment_files *files) {
  char name[PATH_MAX], part[PATH_MAX + sizeof SEGMENT_PART], suffix[16] = "";
  const char *extension = extension_of(path);
  struct folder_entry entry;
  if (number > 0) {
    snprintf(suffix, sizeof suffix, "-%u", number);
  }
  snprintf(name, sizeof name, "%.*s%s%s", (int)(extension - path), path, suffix, extension);
  snprintf(part, sizeof part, "%s%s", name, SEGMENT_PART);
  if (!folder_find(part, true, &entry)) {
    return false;
  }
  const struct folder_entry final = folder_sibling(&entry, name, name + (entry.name - part));
  bool is_made = make_files(config, &final, &entry, payload, files);
  int error = errno;
  folder_leave(&entry);
  errno = error;
  return is_made;
}

static bool open_next(const struct config_pipeline *config, const char *path, uint64_t payload, struct segment_files *files) {
  unsigned number = 0;
  while (!open_name(config, path, number, payload, files)) {
    if (errno != EEXIST || number++ == MOST_NAMESAKES) {
      return false;
    }
  }
  return true;
}

/* On a full disk, removes the oldest segments one by one until there is room for this one. */
static bool open_with_room(const struct config_pipeline *config, const char *path, uint64_t payload,
                           struct segment_files *files) {
  struct retention retention = {0};
  while (!open_next(config, path, payload, files)) {
    int error = errno;
    bool is_full = retention_is_full(error) && retention_makes_room(&config->sink.rotate);
    if (!is_full || retention_apply(config, &retention, true) == 0) {
      errno = error;
      return false;
    }
  }
  return true;
}

bool segments_begin(const struct config_pipeline *config, uint64_t payload, struct segment_files *files,
                    struct failure *failure) {
  char path[PATH_MAX] = "";
  const time_t now = time(NULL);
  struct tm local;
  *files = SEGMENT_FILES_NONE;
  errno = ENAMETOOLONG;
  if (localtime_r(&now, &local) && strftime(path, sizeof path - 64, config->sink.path, &local) > 0 &&
      open_with_room(config, path, payload, files)) {
    return true;
  }
  int error = errno;
  return failure_set_system(failure, error, NULL, "cannot begin the segment '%s'", path[0] ? path : config->sink.path);
}

/* -- finishing a segment ----------------------------------------------------------------------------------------------- */

/* The current path of the open file, even if somebody moved it. Returns false if it was removed. */
static bool path_of(int fd, char path[PATH_MAX]) {
  char link[64];
  struct stat status;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length > 0 ? length : 0] = '\0';
  return length > 0 && fstat(fd, &status) == 0 && status.st_nlink > 0;
}

/* Opens the folder of the open file, and checks that the folder has it, because somebody may have moved it meanwhile. */
static bool find_part(int data, char path[PATH_MAX], struct folder_entry *part) {
  struct stat open_one, named;
  *part = FOLDER_ENTRY_NONE;
  bool is_there =
      path_of(data, path) && folder_find(path, false, part) && fstat(data, &open_one) == 0 && folder_look(part, "", &named);
  bool is_same = is_there && open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
  errno = is_there && !is_same ? ESTALE : errno;
  return is_same;
}

int segments_find_index(int data) {
  char path[PATH_MAX];
  struct folder_entry part;
  int index = find_part(data, path, &part) ? segment_open_index(&part, O_RDWR) : -1;
  folder_leave(&part);
  return index;
}

bool segments_end(const struct segment_files *files, struct failure *failure) {
  static const char remedy[] = "framectl repair finishes it once its disk lets it";
  char path[PATH_MAX], problem[SEGMENT_PROBLEM];
  struct segment_closed closed;
  struct folder_entry part;
  if (!path_of(files->data, path)) {
    return true; /* it was removed on purpose */
  }
  bool is_found = find_part(files->data, path, &part);
  int error = errno;
  bool is_closed = is_found && segment_close(&part, files->data, files->index, &closed, problem);
  folder_leave(&part);
  if (!is_found) {
    return failure_set_system(failure, error, remedy, "'%s' cannot be finished", path);
  }
  return is_closed || failure_set(failure, EXIT_STATUS_INTERNAL, remedy, "%s", problem);
}

/* -- segments of earlier processes --------------------------------------------------------------------------------------- */

/* A segment whose process ended before it wrote the owner. */
static bool is_blank(const struct folder_entry *part, int index) {
  struct stat data, beside;
  return folder_look(part, "", &data) && S_ISREG(data.st_mode) && data.st_size == 0 &&
         (index < 0 || (fstat(index, &beside) == 0 && beside.st_size == 0));
}

static void sweep_one(void *context, const struct folder_entry *part) {
  const struct config_pipeline *config = context;
  char problem[SEGMENT_PROBLEM];
  struct segment_closed closed;
  int index = segment_open_index(part, O_RDONLY);
  bool blank = is_blank(part, index), is_ours = blank || listing_is_own(config, index);
  if (index >= 0) {
    close(index);
  }
  int fd = is_ours ? segment_open_part(part, O_RDWR) : -1;
  if (fd < 0) {
    return; /* not ours, or a process is still writing */
  }
  blank = blank && is_blank(part, -1); /* check again, because it was not locked before */
  if (blank) {
    segment_remove(part); /* while it is locked: see open_data() */
  }
  close(fd);
  if (blank) {
    return;
  }
  if (!segment_repair(part, &closed, problem)) {
    log_event(LOG_CUT, config->name, "%s", problem);
  } else if (closed.name[0] && closed.cut > 0) { /* a complete segment is finished without a message */
    log_event(LOG_CUT, config->name, "'%s' was left unfinished: it has %" PRIu64 " results; %" PRId64 " bytes were cut off",
              closed.name, closed.entries, closed.cut);
  }
}

void segments_sweep(const struct config_pipeline *config, struct retention *retention, bool is_full) {
  listing_walk(config, SEGMENT_PART, sweep_one, (void *)(uintptr_t)config);
  unsigned removed = retention_apply(config, retention, is_full);
  if (is_full && removed > 0) {
    log_event(LOG_MADE_ROOM, config->name, "the disk of '%s' is full: the %u oldest segment%s removed", config->sink.path,
              removed, removed == 1 ? " is" : "s are");
  }
}
