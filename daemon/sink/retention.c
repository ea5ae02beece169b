#include "daemon/sink/retention.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/measure/clock.h"
#include "daemon/sink/listing.h"

#define SLACK (60 * NS_PER_S) /* a step that NTP or an administrator may make */

enum {
  DRIFT = 100,   /* the two clocks may differ by 1 % of the time that passed */
  LEAST_ROOM = 8 /* an eighth of the file system is enough for any segment */
};

struct finished {
  char *path;
  int64_t at; /* its last write, in ns since 1970 */
  int64_t bytes;
};

struct finished_list {
  const struct config_pipeline *config;
  struct finished *items;
  size_t count, room;
  int64_t bytes; /* of all segments */
  int64_t disk, free;
};

static bool is_limited(const struct config_rotate *rotate) { return rotate->keep_ns > 0 || rotate->most > 0; }

bool retention_has_default(const struct config_rotate *rotate) {
  return !is_limited(rotate) && rotate->full != CONFIG_FULL_STOP;
}

bool retention_makes_room(const struct config_rotate *rotate) {
  return rotate->full == CONFIG_FULL_REMOVE_OLDEST || (rotate->full == CONFIG_FULL_AUTO && is_limited(rotate));
}

bool retention_is_full(int error) { return error == ENOSPC || error == EDQUOT; }

bool retention_is_sound(const struct retention *retention) {
  const int64_t most = INT64_MAX / 4;
  return retention->looked >= 0 && retention->looked <= most && retention->shift >= -most && retention->shift <= most &&
         retention->doubt >= 0 && retention->doubt <= most && retention->stepped >= -most && retention->stepped <= most;
}

/* -- collecting the segments ------------------------------------------------------------------------------------------- */

static bool has_room(struct finished_list *list) {
  if (list->count < list->room) {
    return true;
  }
  size_t room = list->room > 0 ? 2 * list->room : 64;
  struct finished *grown = realloc(list->items, room * sizeof *grown);
  list->items = grown ? grown : list->items;
  list->room = grown ? room : list->room;
  return grown;
}

static void measure_disk(struct finished_list *list, int folder) {
  struct statvfs disk;
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0 && fstatvfs(fd, &disk) == 0) {
    list->disk = (int64_t)disk.f_blocks * (int64_t)disk.f_frsize;
    list->free = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
  }
  if (fd >= 0) {
    close(fd);
  }
}

static void take(void *context, const struct folder_entry *entry) {
  struct finished_list *list = context;
  struct stat data, beside;
  int index = folder_open_file(entry, SEGMENT_INDEX, O_RDONLY);
  bool is_own = listing_is_own(list->config, index) && fstat(index, &beside) == 0 && folder_look(entry, "", &data);
  if (index >= 0) {
    close(index);
  }
  char *path = is_own && S_ISREG(data.st_mode) && has_room(list) ? strdup(entry->path) : NULL;
  if (!path) {
    return;
  }
  if (list->count == 0) {
    measure_disk(list, entry->folder);
  }
  list->items[list->count++] = (struct finished){.path = path,
                                                 .at = (int64_t)data.st_mtim.tv_sec * NS_PER_S + data.st_mtim.tv_nsec,
                                                 .bytes = data.st_size + beside.st_size};
  list->bytes += data.st_size + beside.st_size;
}

static int compare_ages(const void *left, const void *right) {
  const struct finished *a = left, *b = right;
  return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : strverscmp(a->path, b->path);
}

/* -- the clock --------------------------------------------------------------------------------------------------------- */

static int64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Time since the newest segment does not count, because only the wall clock says that it passed. */
static void start_clock(struct retention *retention, const struct finished_list *list, int64_t wall) {
  int64_t newest = list->count > 0 ? list->items[list->count - 1].at : wall;
  retention->doubt = wall - newest > SLACK ? wall - newest : 0;
  retention->stepped = newest + 1;
}

static void note_step(struct retention *retention, const struct config_pipeline *config, int64_t step) {
  int64_t doubt = retention->doubt + step;
  retention->stepped = retention->looked + retention->shift + step;
  retention->doubt = doubt > SLACK ? doubt : 0;
  log_event(LOG_CLOCK, config->name, "the system's clock was set %s by %.1f h: recordings from before keep their age",
            step > 0 ? "forward" : "back", (double)(step > 0 ? step : -step) / (3600 * (double)NS_PER_S));
}

/* Returns the wall clock's time. */
static int64_t read_clocks(struct retention *retention, const struct finished_list *list) {
  int64_t wall = read_clock(CLOCK_REALTIME), boot = read_clock(CLOCK_BOOTTIME);
  int64_t step = wall - boot - retention->shift, slack = SLACK + (boot - retention->looked) / DRIFT;
  if (retention->looked == 0) {
    start_clock(retention, list, wall);
  } else if (step > slack || step < -slack) {
    note_step(retention, list->config, step);
  }
  if (list->count == 0 || list->items[0].at >= retention->stepped) {
    retention->doubt = 0; /* none of those segments is left */
  }
  retention->looked = boot;
  retention->shift = wall - boot;
  return wall;
}

static int64_t age_of(const struct finished *finished, const struct retention *retention, int64_t wall) {
  return wall - finished->at - (finished->at < retention->stepped ? retention->doubt : 0);
}

/* -- removing segments ------------------------------------------------------------------------------------------------- */

static bool remove_finished(const struct config_pipeline *config, const char *path) {
  struct folder_entry entry;
  bool is_removed = false;
  if (folder_find(path, false, &entry)) {
    int index = folder_open_file(&entry, SEGMENT_INDEX, O_RDONLY);
    is_removed = listing_is_own(config, index) && folder_remove(&entry, "") && folder_remove(&entry, SEGMENT_INDEX);
    if (index >= 0) {
      close(index);
    }
  }
  folder_leave(&entry);
  listing_remove_folders(config, path);
  return is_removed;
}

/* Maximum bytes of all finished segments; 0: no limit. `size` bytes are reserved for the segment being written. */
static int64_t most_of(const struct config_rotate *rotate, const struct finished_list *list) {
  int64_t most = retention_has_default(rotate) ? list->disk / 100 * CONFIG_DEFAULT_MOST : rotate->most;
  return most > 0 && most <= rotate->size ? 1 : most > 0 ? most - rotate->size : 0;
}

/* Bytes that must be free for the next segment; 0: this pipeline removes no segments. */
static int64_t room_for_next(const struct config_rotate *rotate, const struct finished_list *list) {
  int64_t next = rotate->size > 0 ? rotate->size : list->items[list->count - 1].bytes;
  int64_t most = list->disk / LEAST_ROOM;
  return !retention_makes_room(rotate) ? 0 : next < most ? next : most;
}

/* Removed bytes count as free at once, although a process may still have the file open. */
static unsigned remove_oldest(struct finished_list *list, const struct retention *retention, int64_t wall) {
  const struct config_rotate *rotate = &list->config->sink.rotate;
  int64_t most = most_of(rotate, list), wanted = room_for_next(rotate, list), spare = list->free;
  unsigned removed = 0;
  for (size_t i = 0; i < list->count; i++) {
    const struct finished *finished = &list->items[i];
    bool is_old = rotate->keep_ns > 0 && age_of(finished, retention, wall) > rotate->keep_ns;
    if (!is_old && (most == 0 || list->bytes <= most) && spare >= wanted) {
      break;
    }
    removed += remove_finished(list->config, finished->path);
    list->bytes -= finished->bytes;
    spare += finished->bytes;
  }
  return removed;
}

unsigned retention_apply(const struct config_pipeline *config, struct retention *retention, bool is_full) {
  struct finished_list list = {.config = config};
  unsigned removed = 0;
  listing_walk(config, "", take, &list);
  if (list.count > 0) {
    qsort(list.items, list.count, sizeof *list.items, compare_ages);
  }
  int64_t wall = read_clocks(retention, &list);
  list.free = is_full ? 0 : list.free;
  if (list.count > 0) {
    removed = remove_oldest(&list, retention, wall);
  }
  for (size_t i = 0; i < list.count; i++) {
    free(list.items[i].path);
  }
  free(list.items);
  return removed;
}
