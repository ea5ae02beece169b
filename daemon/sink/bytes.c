/*
 * The bytes of a result for its readers: the header of a stream, the prefix of each result, and lines of JSON.
 *
 * The format of the last stage says what the numbers of a result mean. The line of a result is made once, when the first reader
 * needs it, in a buffer that the sink has for each slot. It depends only on the slot's output and its frame, so the next
 * process makes the same line again. The frame's stages decide its labels, because other stages may be in force when the line
 * is made.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/sink/results.h"

/* -- prefixes ---------------------------------------------------------------------------------------------------------- */

size_t result_prefix(const struct result *result, enum config_protocol protocol, const unsigned char **prefix) {
  if (protocol == CONFIG_PROTOCOL_NATIVE) {
    *prefix = result->native;
    return NATIVE_RESULT_BYTES;
  }
  *prefix = (const unsigned char *)Y4M_FRAME_LINE;
  return protocol == CONFIG_PROTOCOL_Y4M ? sizeof Y4M_FRAME_LINE - 1 : 0;
}

void reader_set_header(struct reader *reader, const struct result *result) {
  const struct sink *sink = reader->sink;
  reader->header_bytes = 0;
  if (result && reader->protocol == CONFIG_PROTOCOL_Y4M) {
    static const struct y4m_look unknown = {0};
    const struct frame *frame = &result->slot->frame;
    reader->header_bytes =
        y4m_write_header(&sink->format, &frame->rate, sink->keeps_look ? &frame->look : &unknown, reader->header);
  }
}

size_t reader_prefix(struct reader *reader, uint64_t at, const unsigned char **prefix) {
  const struct result *result = sink_result(reader->sink, at);
  size_t bytes = result_prefix(result, reader->protocol, prefix);
  if (*prefix == result->native && at == reader->at && reader->skipped > 0) {
    memcpy(reader->native, result->native, sizeof reader->native);
    native_add_dropped(reader->native, reader->skipped);
    *prefix = reader->native;
  }
  return bytes;
}

void result_mark_again(struct result *result) {
  uint32_t flags;
  unsigned char *at = result->native + sizeof(struct native_header) + offsetof(struct native_result, flags);
  memcpy(&flags, at, sizeof flags);
  flags |= (flags & NATIVE_MARK) != 0 ? NATIVE_AGAIN : 0;
  memcpy(at, &flags, sizeof flags);
}

/* -- lines of JSON ------------------------------------------------------------------------------------------------------ */

bool sink_writes_lines(const struct frame_format *output) { return output->meaning != MEANING_NONE; }

struct json_shape sink_line_shape(const struct config_pipeline *config, const struct frame_format *output,
                                  const char *const *labels, unsigned label_count) {
  static const enum json_kind kinds[] = {[MEANING_STATS] = JSON_STATS,
                                         [MEANING_MOTION] = JSON_MOTION,
                                         [MEANING_CLASSES] = JSON_CLASSES,
                                         [MEANING_BOXES] = JSON_BOXES};
  bool is_table = output->rank > 1;
  return (struct json_shape){.pipeline = config->name,
                             .kind = kinds[output->meaning],
                             .rows = is_table ? output->shape[0] : 1,
                             .columns = output->shape[is_table ? 1 : 0],
                             .labels = labels,
                             .label_count = label_count};
}

/* Copies the labels, because their stage may be freed while a result still waits. */
static struct line_shape *copy_shape(const struct json_shape *shape) {
  size_t bytes = 0, count = shape->labels ? shape->label_count : 0;
  for (size_t i = 0; i < count; i++) {
    bytes += strlen(shape->labels[i]) + 1;
  }
  struct line_shape *copy = malloc(sizeof *copy + count * sizeof copy->labels[0] + bytes);
  if (!copy) {
    return NULL;
  }
  char *at = (char *)(copy->labels + count);
  for (size_t i = 0; i < count; i++) {
    copy->labels[i] = at;
    at = stpcpy(at, shape->labels[i]) + 1;
  }
  copy->shape = *shape;
  copy->shape.labels = shape->labels ? (const char *const *)copy->labels : NULL;
  return copy;
}

static void add_shape(struct sink *sink, struct line_shape *shape) {
  shape->next = sink->made;
  sink->made = shape;
}

bool sink_make_lines(struct sink *sink, const struct sink_setup *setup, struct failure *failure) {
  const struct config_pipeline *config = setup->config;
  const struct json_shape shape = sink_line_shape(config, setup->output, setup->labels, setup->label_count);
  struct line_shape *made = copy_shape(&shape);
  sink->result_bytes = json_most_bytes(&shape);
  sink->lines = made ? calloc(config->slots, sink->result_bytes) : NULL;
  if (made) {
    add_shape(sink, made);
    for (unsigned i = 0; i < FLOW_STAGES; i++) {
      sink->shapes[i] = made;
    }
  }
  return sink->lines || failure_set(failure, EXIT_STATUS_INTERNAL, "use fewer slots",
                                    "no memory for %u lines of %zu bytes in the sink of pipeline '%s'", config->slots,
                                    sink->result_bytes, config->name);
}

static bool has_labels(const struct json_shape *one, const struct json_shape *other) {
  bool same = !one->labels == !other->labels && one->label_count == other->label_count;
  for (unsigned i = 0; same && one->labels && i < one->label_count; i++) {
    same = strcmp(one->labels[i], other->labels[i]) == 0;
  }
  return same;
}

bool sink_take_labels(struct sink *sink, unsigned stages, const char *const *labels, unsigned label_count) {
  if (!sink->lines) {
    return true;
  }
  struct json_shape shape = sink->made->shape;
  shape.labels = labels;
  shape.label_count = label_count;
  struct line_shape *found = sink->made;
  while (found && !has_labels(&found->shape, &shape)) {
    found = found->next;
  }
  if (!found && json_most_bytes(&shape) <= sink->result_bytes && (found = copy_shape(&shape))) {
    add_shape(sink, found);
  }
  if (found) {
    atomic_store(&sink->shapes[stages], found);
  }
  return found;
}

void sink_free_lines(struct sink *sink) {
  while (sink->made) {
    struct line_shape *shape = sink->made;
    sink->made = shape->next;
    free(shape);
  }
  free(sink->lines);
}

void result_make_line(struct result *result) {
  struct sink *sink = result->sink;
  const struct frame *frame = &result->slot->frame;
  const struct line_shape *shape = atomic_load_explicit(&sink->shapes[frame->stages % FLOW_STAGES], memory_order_acquire);
  const struct json_frame which = {
      .sequence = frame->tag, .epoch = frame->epoch, .number = frame->sequence, .timestamp = frame->began};
  result->line_bytes =
      json_write_line(&shape->shape, &which, (const float *)(const void *)result->slot->output, result_line(result));
}
