#include "daemon/server/replay.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "daemon/server/footprint.h"
#include "daemon/server/single.h"
#include "daemon/wire/segment.h"

#define SAME_BOX 0.5 /* share of two boxes that is in both, from which they are one */

enum { MOST_BOXES = 4096, PROGRESS_MS = 500 };

struct side {
  const char *path;
  struct config *config;
  struct single single;
  uint64_t boxes;
  int64_t ns;
};

struct replay {
  const char *path;
  char pipeline[SEGMENT_OWNER];
  int data, index;
  struct segment_index reading;
  uint64_t count, differing, come, gone;
  size_t payload;
  struct side before, after;
  int64_t shown;
};

/* -- the recording ----------------------------------------------------------------------------------------------------- */

/* Who wrote an index stands there as text, which may be anything. */
static bool is_name(const char *text, size_t length) {
  return length > 0 && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") >= length;
}

static int open_file(const char *path, const char *suffix) {
  struct folder_entry entry;
  int fd = folder_find(path, false, &entry) ? folder_open_file(&entry, suffix, O_RDONLY) : -1;
  folder_leave(&entry);
  return fd;
}

static bool open_recording(struct replay *replay, struct failure *failure) {
  static const char input[] = " input";
  struct segment_head *head = &replay->reading.head;
  struct stat status;
  replay->data = open_file(replay->path, "");
  replay->index = open_file(replay->path, SEGMENT_INDEX);
  bool is_read = replay->data >= 0 && replay->index >= 0 && fstat(replay->data, &status) == 0 &&
                 segment_index_open(&replay->reading, replay->index, status.st_size);
  size_t length = is_read ? strnlen(head->owner, sizeof head->owner - 1) : 0, suffix = sizeof input - 1;
  bool is_input = length > suffix && memcmp(head->owner + length - suffix, input, suffix) == 0;
  length -= is_input ? suffix : 0;
  if (!is_read || !is_name(head->owner, length)) {
    return failure_set(failure, EXIT_STATUS_USAGE, "name a finished segment of `record`; framectl repair finishes one",
                       "'%s' is no recording with an index beside it", replay->path);
  }
  snprintf(replay->pipeline, sizeof replay->pipeline, "%.*s", (int)length, head->owner);
  replay->payload = head->payload;
  replay->count = replay->reading.count;
  return is_input ||
         failure_set(failure, EXIT_STATUS_USAGE, "name a segment of `record`",
                     "'%s' has results of pipeline '%s', and no frames that came in", replay->path, replay->pipeline);
}

static bool read_recorded(struct replay *replay, uint64_t number, struct segment_entry *entry, struct failure *failure) {
  if (!segment_index_read(&replay->reading, number, entry)) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the index of '%s' is damaged", replay->path);
  }
  off_t at = (off_t)(entry->offset + entry->bytes - replay->payload);
  size_t done = 0;
  for (ssize_t got = 1; done < replay->payload && got > 0; done += got > 0 ? (size_t)got : 0) {
    got = pread(replay->data, replay->before.single.input + done, replay->payload - done, at + (off_t)done);
  }
  return done == replay->payload || failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "'%s' cannot be read", replay->path);
}

/* -- the configurations ------------------------------------------------------------------------------------------------ */

static bool load(struct side *side, const char *name, struct failure *failure) {
  struct config_errors *errors = config_errors_new();
  side->config = errors ? footprint_load(side->path, errors) : NULL;
  if (!side->config) {
    failure_set(failure, EXIT_STATUS_CONFIG, NULL, "%s", errors ? config_errors_text(errors) : "not enough memory");
  }
  config_errors_free(errors);
  const struct config_pipeline *found = NULL;
  for (unsigned i = 0; side->config && i < side->config->pipeline_count; i++) {
    found = strcmp(side->config->pipelines[i].name, name) == 0 ? &side->config->pipelines[i] : found;
  }
  side->single.pipeline = found;
  return !side->config || found ||
         failure_set(failure, EXIT_STATUS_CONFIG, "give the pipeline the name that it was recorded under",
                     "'%s' has no pipeline '%s'", side->path, name);
}

static bool open_side(struct side *side, const struct replay *replay, struct device *device, struct failure *failure) {
  if (!single_open(&side->single, side->config, side->single.pipeline, device, failure)) {
    return false;
  }
  return side->single.input_bytes == replay->payload ||
         failure_set(failure, EXIT_STATUS_CONFIG, "write the format in which it was recorded",
                     "the recorded frames have %zu bytes, and the source of '%s' in '%s' %zu", replay->payload,
                     replay->pipeline, side->path, side->single.input_bytes);
}

static bool open_sides(struct replay *replay, struct failure *failure) {
  if (!load(&replay->before, replay->pipeline, failure) || !replay->before.config ||
      !load(&replay->after, replay->pipeline, failure) || !replay->after.config) {
    return false;
  }
  bool shares = replay->before.config->gpu.backend == replay->after.config->gpu.backend &&
                replay->before.single.pipeline->device == replay->after.single.pipeline->device;
  return open_side(&replay->before, replay, NULL, failure) &&
         open_side(&replay->after, replay, shares ? replay->before.single.device : NULL, failure);
}

/* -- what differs ------------------------------------------------------------------------------------------------------ */

struct boxes {
  const float *rows;
  size_t count, columns;
  bool has_classes;
};

static bool has_boxes(const struct single *single) {
  enum frame_meaning meaning = device_chain_record(single->chain)->output.meaning;
  return meaning == MEANING_BOXES || meaning == MEANING_MOTION;
}

static struct boxes boxes_of(const struct single *single) {
  const struct frame_format *format = &device_chain_record(single->chain)->output;
  const float *values = (const float *)(const void *)single->output;
  bool is_motion = format->meaning == MEANING_MOTION;
  struct boxes boxes = {.rows = values, .columns = format->shape[1], .has_classes = !is_motion};
  size_t most = format->shape[0] < MOST_BOXES ? format->shape[0] : MOST_BOXES;
  if (is_motion) {
    boxes.rows += boxes.columns;
    boxes.count = most > 0 && values[0] > 0 ? (size_t)fminf(values[0], (float)(most - 1)) : 0;
    return boxes;
  }
  while (boxes.count < most && values[boxes.count * boxes.columns + 4] != 0) {
    boxes.count++;
  }
  return boxes;
}

static float shared_length(float a, float length_a, float b, float length_b) {
  return fmaxf(0, fminf(a + length_a, b + length_b) - fmaxf(a, b));
}

static bool is_one_box(const float *a, const float *b, bool has_classes) {
  float shared = shared_length(a[0], a[2], b[0], b[2]) * shared_length(a[1], a[3], b[1], b[3]);
  float both = a[2] * a[3] + b[2] * b[3] - shared;
  return both > 0 && shared / both >= (float)SAME_BOX && (!has_classes || a[5] == b[5]);
}

/* How many of the one's boxes the other one has not. */
static unsigned count_missing(const struct boxes *from, const struct boxes *in) {
  unsigned missing = 0;
  for (size_t i = 0; i < from->count; i++) {
    bool found = false;
    for (size_t j = 0; j < in->count && !found; j++) {
      found = is_one_box(from->rows + i * from->columns, in->rows + j * in->columns, from->has_classes && in->has_classes);
    }
    missing += !found;
  }
  return missing;
}

static bool compare_boxes(struct replay *replay, char *text, size_t size) {
  struct boxes before = boxes_of(&replay->before.single), after = boxes_of(&replay->after.single);
  unsigned gone = count_missing(&before, &after), come = count_missing(&after, &before);
  replay->before.boxes += before.count;
  replay->after.boxes += after.count;
  replay->gone += gone;
  replay->come += come;
  snprintf(text, size, "boxes %zu -> %zu: %u gone, %u new", before.count, after.count, gone, come);
  return gone + come > 0 || before.count != after.count;
}

static bool compare_floats(const struct replay *replay, char *text, size_t size) {
  const unsigned char *before_bytes = replay->before.single.output, *after_bytes = replay->after.single.output;
  const float *before = (const float *)(const void *)before_bytes;
  const float *after = (const float *)(const void *)after_bytes;
  size_t count = replay->before.single.output_bytes / sizeof *before, other = 0;
  double most = 0;
  for (size_t i = 0; i < count; i++) {
    bool differs = memcmp(&before_bytes[i * sizeof *before], &after_bytes[i * sizeof *after], sizeof *before) != 0;
    other += differs;
    most = differs ? fmax(most, fabs((double)before[i] - (double)after[i])) : most;
  }
  snprintf(text, size, "%zu of %zu numbers, by %.3g at most", other, count, most);
  return other > 0;
}

static bool compare_bytes(const struct replay *replay, char *text, size_t size) {
  const struct single *before = &replay->before.single, *after = &replay->after.single;
  size_t other = 0;
  int most = 0;
  for (size_t i = 0; i < before->output_bytes; i++) {
    int difference =
        before->output[i] > after->output[i] ? before->output[i] - after->output[i] : after->output[i] - before->output[i];
    other += difference > 0;
    most = difference > most ? difference : most;
  }
  snprintf(text, size, "%zu of %zu bytes, by %d at most", other, before->output_bytes, most);
  return other > 0;
}

static bool results_differ(struct replay *replay, char *text, size_t size) {
  const struct frame_format *format = &device_chain_record(replay->before.single.chain)->output;
  if (has_boxes(&replay->before.single) && has_boxes(&replay->after.single)) {
    return compare_boxes(replay, text, size);
  }
  return format->dtype == ELEMENT_FLOAT32 ? compare_floats(replay, text, size) : compare_bytes(replay, text, size);
}

static bool may_compare(const struct replay *replay, struct failure *failure) {
  const struct frame_format *before = &device_chain_record(replay->before.single.chain)->output;
  const struct frame_format *after = &device_chain_record(replay->after.single.chain)->output;
  char one[FORMAT_TEXT], other[FORMAT_TEXT];
  bool both_boxes = has_boxes(&replay->before.single) && has_boxes(&replay->after.single);
  return both_boxes || format_equal(before, after) ||
         failure_set(failure, EXIT_STATUS_CONFIG, "compare pipelines whose results are of one format, or boxes",
                     "results of %s and of %s cannot be compared", format_describe(before, one), format_describe(after, other));
}

/* -- all of it --------------------------------------------------------------------------------------------------------- */

static void show_progress(struct replay *replay, uint64_t done, bool ends) {
  int64_t now = clock_now();
  if (isatty(STDERR_FILENO) && (ends || now - replay->shown > PROGRESS_MS * NS_PER_MS)) {
    replay->shown = now;
    fprintf(stderr, ends ? "\r\033[K" : "\r%" PRIu64 " of %" PRIu64 " frames, %" PRIu64 " differ\033[K", done, replay->count,
            replay->differing);
  }
}

static bool run_side(struct side *side, bool restart, struct failure *failure) {
  int64_t began = clock_now();
  bool good = single_run(&side->single, restart, failure);
  side->ns += clock_now() - began;
  return good;
}

static bool run_recorded(struct replay *replay, uint64_t number, int64_t *began, struct failure *failure) {
  struct segment_entry entry;
  char text[128];
  if (!read_recorded(replay, number, &entry, failure)) {
    return false;
  }
  bool restart = number == 0 || (entry.flags & SEGMENT_RESTART) != 0;
  memcpy(replay->after.single.input, replay->before.single.input, replay->payload);
  *began = number == 0 ? entry.came : *began;
  if (!run_side(&replay->before, restart, failure) || !run_side(&replay->after, restart, failure)) {
    return false;
  }
  if (results_differ(replay, text, sizeof text)) {
    replay->differing++;
    show_progress(replay, number, true);
    printf("frame %" PRIu64 " at %.3f s: %s\n", entry.tag, (double)(entry.came - *began) / (double)NS_PER_S, text);
  }
  show_progress(replay, number, false);
  return true;
}

static void sum_up(const struct replay *replay) {
  double frames = replay->count > 0 ? (double)replay->count * 1e6 : 1;
  printf("%" PRIu64 " of %" PRIu64 " frames differ", replay->differing, replay->count);
  if (has_boxes(&replay->before.single)) {
    printf("; boxes %" PRIu64 " -> %" PRIu64 ": %" PRIu64 " gone, %" PRIu64 " new", replay->before.boxes, replay->after.boxes,
           replay->gone, replay->come);
  }
  printf("; %.3g -> %.3g ms a frame\n", (double)replay->before.ns / frames, (double)replay->after.ns / frames);
}

static bool run_all(struct replay *replay, struct failure *failure) {
  int64_t began = 0;
  bool good = open_recording(replay, failure) && open_sides(replay, failure) && may_compare(replay, failure);
  for (uint64_t number = 0; good && number < replay->count; number++) {
    good = run_recorded(replay, number, &began, failure);
  }
  show_progress(replay, replay->count, true);
  if (good) {
    sum_up(replay);
  }
  return good;
}

/* The device goes last, since both may have it. */
static void close_sides(struct replay *replay) {
  bool closed = !replay->after.single.device || single_close(&replay->after.single);
  closed = (!replay->before.single.device || single_close(&replay->before.single)) && closed;
  if (!closed) {
    fflush(NULL);
    _exit(EXIT_STATUS_GPU_LOST);
  }
  config_free(replay->before.config);
  config_free(replay->after.config);
}

int replay_run(const char *recording, const char *before, const char *after) {
  struct replay replay = {.path = recording, .data = -1, .index = -1, .before = {.path = before}, .after = {.path = after}};
  struct failure failure = {0};
  bool good = run_all(&replay, &failure);
  if (!good) {
    fprintf(stderr, "framed: %s\n", failure.text);
    fprintf(stderr, failure.remedy[0] ? "  %s\n" : "%s", failure.remedy);
  }
  close_sides(&replay);
  if (replay.data >= 0) {
    close(replay.data);
  }
  if (replay.index >= 0) {
    close(replay.index);
  }
  return !good ? (int)failure.status : replay.differing > 0 ? REPLAY_DIFFERS : EXIT_STATUS_OK;
}
