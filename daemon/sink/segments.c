#include "daemon/sink/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/measure/clock.h"

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

/* The pipeline that wrote a segment: only that one finishes and removes it. */
static void owner_of(const struct config_pipeline *config, char owner[SEGMENT_OWNER]) {
  memset(owner, 0, SEGMENT_OWNER);
  snprintf(owner, SEGMENT_OWNER, "%s%s", config->name, config->sink.records ? " input" : "");
}

static bool is_own(const struct config_pipeline *config, int index) {
  char owner[SEGMENT_OWNER];
  struct segment_head head;
  owner_of(config, owner);
  return index >= 0 && segment_read_head(index, &head) && memcmp(owner, head.owner, sizeof owner) == 0;
}

/* -- names ------------------------------------------------------------------------------------------------------------- */

/* Where the extension of the last part of a path begins, or its end. */
static const char *extension_of(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  return dot && dot > name ? dot : path + strlen(path);
}

/* "out-%H%M.y4m" as glob() takes it: any text for each conversion, and before the extension, where a number may stand. */
static void pattern_of(const char *name, char pattern[2 * PATH_MAX]) {
  const char *extension = extension_of(name);
  char *to = pattern;
  for (const char *at = name; *at && to < pattern + 2 * PATH_MAX - 16; at++) {
    if (at == extension) {
      *to++ = '*';
    }
    if (*at == '%' && at[1] == '%') {
      *to++ = *at++;
    } else if (*at == '%') {
      at += 1 + strspn(at + 1, "_-0^#EO123456789");
      *to++ = '*';
      at -= *at == '\0';
    } else {
      if (strchr("*?[\\", *at)) {
        *to++ = '\\';
      }
      *to++ = *at;
    }
  }
  memcpy(to, *extension ? "" : "*", *extension ? 1 : 2);
}

static bool make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    bool is_there = mkdir(path, 0777) == 0 || errno == EEXIST;
    *slash = '/';
    if (!is_there) {
      return false;
    }
  }
  return true;
}

/* -- a new one ----------------------------------------------------------------------------------------------------------- */

/* Or was a moment ago, and its index is about to go. */
static bool is_taken(const char *name) {
  char index[PATH_MAX + sizeof SEGMENT_INDEX];
  struct stat there;
  snprintf(index, sizeof index, "%s%s", name, SEGMENT_INDEX);
  return lstat(name, &there) == 0 || lstat(index, &there) == 0;
}

/* What a sweep took for left behind before it was locked has no name any more, and is made under another one. */
static bool open_data(const char *part, struct segment_files *files) {
  struct stat made;
  files->data = segment_open_part(part, O_RDWR | O_CREAT | O_EXCL);
  bool is_swept = files->data < 0 ? errno == EWOULDBLOCK : fstat(files->data, &made) == 0 && made.st_nlink == 0;
  if (is_swept) {
    segments_drop(files);
    errno = EEXIST;
  }
  return files->data >= 0;
}

/* The n-th name that this time has. */
static bool open_name(const char *path, unsigned number, struct segment_files *files) {
  char name[PATH_MAX], part[PATH_MAX + 32], suffix[16] = "";
  const char *extension = extension_of(path);
  if (number > 0) {
    snprintf(suffix, sizeof suffix, "-%u", number);
  }
  snprintf(name, sizeof name, "%.*s%s%s", (int)(extension - path), path, suffix, extension);
  snprintf(part, sizeof part, "%s%s", name, SEGMENT_PART);
  if (!open_data(part, files)) {
    return false;
  }
  if (is_taken(name)) { /* looked at last, since another one may just have got that name */
    unlink(part);
    segments_drop(files);
    errno = EEXIST;
    return false;
  }
  files->index = segment_open_index(part, O_RDWR | O_CREAT | O_TRUNC);
  return files->index >= 0;
}

static bool write_head(const struct config_pipeline *config, uint64_t payload, int index) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  struct segment_head head = {.magic = SEGMENT_MAGIC,
                              .version = SEGMENT_VERSION,
                              .entry_bytes = sizeof(struct segment_entry),
                              .began = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec,
                              .payload = payload};
  owner_of(config, head.owner);
  ssize_t written = pwrite(index, &head, sizeof head, 0);
  errno = written >= 0 ? ENOSPC : errno;
  return written == (ssize_t)sizeof head;
}

bool segments_begin(const struct config_pipeline *config, uint64_t payload, struct segment_files *files,
                    struct failure *failure) {
  char path[PATH_MAX] = "";
  *files = SEGMENT_FILES_NONE;
  errno = ENAMETOOLONG;
  const time_t now = time(NULL);
  struct tm local;
  bool is_open =
      localtime_r(&now, &local) && strftime(path, sizeof path - 64, config->sink.path, &local) > 0 && make_folders(path);
  for (unsigned number = 0; is_open && files->data < 0; number++) {
    if (!open_name(path, number, files) && (files->data >= 0 || errno != EEXIST || number == MOST_NAMESAKES)) {
      is_open = false;
    }
  }
  if (is_open && write_head(config, payload, files->index)) {
    return true;
  }
  int error = errno;
  bool is_access = error == EACCES || error == EPERM || error == EROFS;
  segments_drop(files);
  return failure_set(failure, EXIT_STATUS_CONFIG,
                     is_access ? "give the daemon's user access to it (under systemd also ReadWritePaths=)" : NULL,
                     "cannot begin the segment '%s': %s", path[0] ? path : config->sink.path, strerror(error));
}

/* -- the end of one ---------------------------------------------------------------------------------------------------- */

/* What the open file is called now, wherever somebody has moved it. False: it is gone. */
static bool path_of(int fd, char path[PATH_MAX]) {
  char link[64];
  struct stat status;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length > 0 ? length : 0] = '\0';
  return length > 0 && fstat(fd, &status) == 0 && status.st_nlink > 0;
}

int segments_find_index(int data) {
  char part[PATH_MAX];
  return path_of(data, part) ? segment_open_index(part, O_RDWR) : -1;
}

bool segments_end(const struct segment_files *files, struct failure *failure) {
  char part[PATH_MAX], problem[SEGMENT_PROBLEM];
  struct segment_closed closed;
  return !path_of(files->data, part) || /* nobody wants it any more */
         segment_close(part, files->data, files->index, &closed, problem) ||
         failure_set(failure, EXIT_STATUS_INTERNAL, "framectl repair finishes it once its disk lets it", "%s", problem);
}

/* -- too old, too many ------------------------------------------------------------------------------------------------- */

struct finished {
  const char *path;
  struct timespec at;
  int64_t bytes;
};

static int compare_ages(const void *left, const void *right) {
  const struct finished *a = left, *b = right;
  int64_t seconds = a->at.tv_sec - b->at.tv_sec, rest = a->at.tv_nsec - b->at.tv_nsec;
  int64_t order = seconds != 0 ? seconds : rest;
  return order != 0 ? (order > 0) - (order < 0) : strverscmp(a->path, b->path);
}

/* Whether there is a finished segment at the path, whoever made it. */
static bool look_at(const char *path, struct finished *finished) {
  char index[PATH_MAX + sizeof SEGMENT_INDEX];
  struct stat data, beside;
  snprintf(index, sizeof index, "%s%s", path, SEGMENT_INDEX);
  if (lstat(path, &data) != 0 || !S_ISREG(data.st_mode) || lstat(index, &beside) != 0) {
    return false;
  }
  *finished = (struct finished){.path = path, .at = data.st_mtim, .bytes = data.st_size + beside.st_size};
  return true;
}

static void remove_finished(const struct config_pipeline *config, const char *path) {
  char index[PATH_MAX + sizeof SEGMENT_INDEX];
  snprintf(index, sizeof index, "%s%s", path, SEGMENT_INDEX);
  int fd = open(index, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (is_own(config, fd) && unlink(path) == 0) {
    unlink(index);
  }
  if (fd >= 0) {
    close(fd);
  }
}

/* The segment that is being written may take `size` of what all together may have. */
static void prune_list(const struct config_pipeline *config, const struct finished *list, size_t count) {
  int64_t keep = config->sink.rotate.keep_ns / NS_PER_S, room = config->sink.rotate.most - config->sink.rotate.size, sum = 0;
  time_t now = time(NULL);
  for (size_t i = 0; i < count; i++) {
    sum += list[i].bytes;
  }
  for (size_t i = 0; i < count; i++) {
    bool is_old = keep > 0 && now - list[i].at.tv_sec > keep;
    if (!is_old && (config->sink.rotate.most == 0 || sum <= room)) {
      return;
    }
    remove_finished(config, list[i].path);
    sum -= list[i].bytes;
  }
}

static void prune(const struct config_pipeline *config) {
  char pattern[2 * PATH_MAX];
  glob_t found;
  pattern_of(config->sink.path, pattern);
  bool is_limited = config->sink.rotate.keep_ns > 0 || config->sink.rotate.most > 0;
  if (!is_limited || glob(pattern, 0, NULL, &found) != 0) {
    return;
  }
  struct finished *list = calloc(found.gl_pathc, sizeof *list);
  size_t count = 0;
  for (size_t i = 0; list && i < found.gl_pathc; i++) {
    count += look_at(found.gl_pathv[i], &list[count]);
  }
  if (count > 0) {
    qsort(list, count, sizeof *list, compare_ages);
    prune_list(config, list, count);
  }
  free(list);
  globfree(&found);
}

/* -- what was left ------------------------------------------------------------------------------------------------------- */

/* A segment whose maker ended before it wrote whose it is. */
static bool is_blank(const char *part, int index) {
  struct stat data, beside;
  return lstat(part, &data) == 0 && S_ISREG(data.st_mode) && data.st_size == 0 &&
         (index < 0 || (fstat(index, &beside) == 0 && beside.st_size == 0));
}

static void sweep_one(const struct config_pipeline *config, const char *part) {
  char problem[SEGMENT_PROBLEM];
  struct segment_closed closed;
  int index = segment_open_index(part, O_RDONLY);
  bool blank = is_blank(part, index), is_ours = blank || is_own(config, index);
  if (index >= 0) {
    close(index);
  }
  int fd = is_ours ? segment_open_part(part, O_RDWR) : -1;
  if (fd < 0) {
    return; /* not ours, or somebody writes to it */
  }
  blank = blank && is_blank(part, -1); /* looked at before it was locked */
  if (blank) {
    segment_remove(part); /* while it is locked: see open_data() */
  }
  close(fd);
  if (blank) {
    return;
  }
  if (!segment_repair(part, &closed, problem)) {
    log_event(LOG_CUT, config->name, "%s", problem);
  } else if (closed.name[0] && closed.cut > 0) { /* a whole one is finished as if its maker had */
    log_event(LOG_CUT, config->name, "'%s' was left unfinished: it has %" PRIu64 " results; %" PRId64 " bytes were cut off",
              closed.name, closed.entries, closed.cut);
  }
}

void segments_sweep(const struct config_pipeline *config) {
  char pattern[2 * PATH_MAX];
  glob_t found;
  pattern_of(config->sink.path, pattern);
  memcpy(pattern + strlen(pattern), SEGMENT_PART, sizeof SEGMENT_PART);
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; i++) {
      sweep_one(config, found.gl_pathv[i]);
    }
    globfree(&found);
  }
  prune(config);
}
