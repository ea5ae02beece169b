/*
 * Results as lines of JSON: what a result's numbers mean comes from the format of the last stage, and the line of a result is
 * made once, when the first reader gets to it, into room that the sink has for each slot.
 *
 * A line is made of the slot's bytes and its frame alone, so that the next process makes the same one again.
 */
#include <stdlib.h>

#include "daemon/sink/results.h"

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

bool sink_make_lines(struct sink *sink, const struct sink_setup *setup, struct failure *failure) {
  const struct config_pipeline *config = setup->config;
  sink->shape = sink_line_shape(config, setup->output, setup->labels, setup->label_count);
  sink->result_bytes = json_most_bytes(&sink->shape);
  sink->lines = calloc(config->slots, sink->result_bytes);
  return sink->lines || failure_set(failure, EXIT_STATUS_INTERNAL, "use fewer slots",
                                    "no memory for %u lines of %zu bytes in the sink of pipeline '%s'", config->slots,
                                    sink->result_bytes, config->name);
}

void result_make_line(struct result *result) {
  struct sink *sink = result->sink;
  const struct frame *frame = &result->slot->frame;
  const struct json_frame which = {
      .sequence = frame->tag, .epoch = frame->epoch, .number = frame->sequence, .timestamp = frame->began};
  result->line_bytes =
      json_write_line(&sink->shape, &which, (const float *)(const void *)result->slot->output, result_line(result));
}
