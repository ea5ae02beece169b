/*
 * A file that is a recording: the index beside it says when each of its frames came. It is read before the start, so that
 * nothing waits for it on a lane.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/source/source.h"

enum { MOST_ENTRIES = 1 << 26 };

static bool read_entries(int index, const struct segment_head *head, uint64_t count, struct receive *receive) {
  struct segment_entry *entries = malloc(count * sizeof *entries);
  bool good = entries != NULL;
  for (uint64_t i = 0; good && i < count; i++) {
    good = segment_read_entry(index, head, i, &entries[i]);
  }
  if (!good) {
    free(entries);
    return false;
  }
  receive->entries = entries;
  receive->entry_count = count;
  return true;
}

static bool read_index(int index, const char *path, struct receive *receive, struct failure *failure) {
  static const char remedy[] = "name a finished segment of `record`; framectl repair finishes one";
  struct segment_head head;
  struct stat status;
  int64_t end;
  if (!segment_read_head(index, &head) || stat(path, &status) != 0) {
    return failure_set(failure, EXIT_STATUS_CONFIG, remedy, "'%s%s' is no index of a recording", path, SEGMENT_INDEX);
  }
  if (head.payload != receive->flow->input_bytes) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "name the format in which it was recorded",
                       "the frames of '%s' have %llu bytes, and those of the source's format %zu", path,
                       (unsigned long long)head.payload, receive->flow->input_bytes);
  }
  uint64_t count = segment_count(index, &head, status.st_size, &end);
  return (count > 0 && count < MOST_ENTRIES && read_entries(index, &head, count, receive)) ||
         failure_set(failure, EXIT_STATUS_CONFIG, remedy, "the index of '%s' cannot be read, or has no frames", path);
}

bool source_load_recording(struct source *source, const struct config_source *config, struct failure *failure) {
  char path[PATH_MAX + sizeof SEGMENT_INDEX];
  source->pace_by = config->pace;
  if (config->pace <= 0) {
    return true;
  }
  snprintf(path, sizeof path, "%s%s", config->path, SEGMENT_INDEX);
  int index = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (index < 0) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "`pace` is for recordings, which have an index; use `rate`",
                       "cannot open '%s'", path);
  }
  bool good = read_index(index, config->path, source->receive, failure);
  close(index);
  return good;
}

void source_drop_recording(struct source *source) {
  if (source->receive) {
    free(source->receive->entries);
    source->receive->entries = NULL;
  }
}
