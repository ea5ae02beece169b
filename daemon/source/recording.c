/*
 * A source that is a recording: the index beside the file says when each frame came. It is read completely before the start, so
 * that no lane waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/measure/clock.h"
#include "daemon/source/source.h"

#define LONGEST_PAUSE (10 * NS_PER_S)

enum { MOST_ENTRIES = 1 << 26, ENTRIES_A_STEP = 1 << 12 };

static atomic_bool stops;

void source_stop_loading(void) { atomic_store(&stops, true); }

/* Allocates as it reads, so that a false size in the index costs nothing. On NULL errno has the reason; EBADMSG: it is
 * damaged. */
static struct segment_entry *read_entries(struct segment_index *index) {
  struct segment_entry *entries = NULL;
  int error = index->count == 0 || index->count >= MOST_ENTRIES ? EBADMSG : 0;
  for (uint64_t i = 0; error == 0 && i < index->count; i++) {
    if (i % ENTRIES_A_STEP == 0) {
      uint64_t left = index->count - i;
      struct segment_entry *grown = realloc(entries, (i + (left < ENTRIES_A_STEP ? left : ENTRIES_A_STEP)) * sizeof *entries);
      entries = grown ? grown : entries;
      error = !grown ? ENOMEM : atomic_load(&stops) ? ECANCELED : 0;
    }
    if (error == 0 && !segment_index_read(index, i, &entries[i])) {
      error = EBADMSG;
    }
  }
  if (error != 0) {
    free(entries);
    errno = error;
  }
  return error == 0 ? entries : NULL;
}

/* -- pauses ------------------------------------------------------------------------------------------------------------ */

/* The longest gap that can be a pause of the source. A longer one is a clock step, or too long to replay. */
static int64_t longest_pause(const struct segment_entry *entries, uint64_t count) {
  int64_t longest = 0;
  for (uint64_t i = 1; i < count; i++) {
    int64_t gap = entries[i].came - entries[i - 1].came;
    longest = gap > longest && gap <= LONGEST_PAUSE ? gap : longest;
  }
  return longest > 0 ? longest : LONGEST_PAUSE;
}

/* Moves a frame to another time, with its age and its deadline. */
static void move_to(struct segment_entry *entry, int64_t came) {
  entry->stamp = came - (entry->came - entry->stamp);
  entry->deadline = entry->deadline != 0 ? came + (entry->deadline - entry->came) : 0;
  entry->came = came;
}

/* Only the gaps between frames matter, so the first frame comes at 0. */
static void shorten_pauses(struct segment_entry *entries, uint64_t count, const char *path, const char *pipeline) {
  const int64_t longest = longest_pause(entries, count);
  int64_t before = entries[0].came, at = 0, most = 0;
  uint64_t shortened = 0;
  for (uint64_t i = 0; i < count; i++) {
    int64_t gap = entries[i].came - before;
    before = entries[i].came;
    shortened += gap > longest;
    most = gap > most ? gap : most;
    at += gap > longest ? longest : gap > 0 ? gap : 0;
    move_to(&entries[i], at);
  }
  if (shortened > 0) {
    log_event(LOG_PAUSES, pipeline, "%llu pause%s of '%s', of up to %.4g s, %s replayed as %.4g s",
              (unsigned long long)shortened, shortened == 1 ? "" : "s", path, (double)most / (double)NS_PER_S,
              shortened == 1 ? "is" : "are", (double)longest / (double)NS_PER_S);
  }
}

/* -- the index --------------------------------------------------------------------------------------------------------- */

static bool read_index(int file, int64_t size, const char *path, const char *pipeline, struct receive *receive,
                       struct failure *failure) {
  static const char remedy[] = "name a finished segment of `record`; framectl repair finishes one";
  struct segment_index index;
  if (!segment_index_open(&index, file, size)) {
    return failure_set(failure, EXIT_STATUS_CONFIG, remedy, "'%s%s' is no index of a recording", path, SEGMENT_INDEX);
  }
  if (index.head.payload != receive->flow->input_bytes) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "name the format in which it was recorded",
                       "the frames of '%s' have %llu bytes, and those of the source's format %zu", path,
                       (unsigned long long)index.head.payload, receive->flow->input_bytes);
  }
  struct segment_entry *entries = read_entries(&index);
  if (!entries && errno != EBADMSG) {
    return failure_set_system(failure, errno, NULL, "cannot read the index of '%s'", path);
  }
  if (!entries) {
    return failure_set(failure, EXIT_STATUS_CONFIG, remedy, "the index of '%s' is damaged, or has no frames", path);
  }
  shorten_pauses(entries, index.count, path, pipeline);
  receive->entries = entries;
  receive->entry_count = index.count;
  return true;
}

bool source_load_recording(struct source *source, const struct config_source *config, const char *pipeline,
                           struct failure *failure) {
  struct folder_entry entry;
  struct stat data;
  source->pace_by = config->pace;
  if (config->pace <= 0) {
    return true;
  }
  bool is_there = folder_find(config->path, false, &entry) && folder_look(&entry, "", &data);
  int index = is_there ? folder_open_file(&entry, SEGMENT_INDEX, O_RDONLY) : -1, error = errno;
  folder_leave(&entry);
  if (index < 0 && error != ENOENT) {
    return failure_set_system(failure, error, NULL, "cannot open '%s%s'", config->path, SEGMENT_INDEX);
  }
  if (index < 0) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "`pace` is for recordings, which have an index; use `rate`",
                       "cannot open '%s%s'", config->path, SEGMENT_INDEX);
  }
  bool good = read_index(index, data.st_size, config->path, pipeline, source->receive, failure);
  close(index);
  return good;
}

void source_drop_recording(struct source *source) {
  if (source->receive) {
    free(source->receive->entries);
    source->receive->entries = NULL;
  }
}
