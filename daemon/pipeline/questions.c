/*
 * Queries about a pipeline: its state, what it waits for, the times of the last frames; also pictures and traces of one
 * producer. snapshot.c has the sums over all its sessions.
 */
#include "daemon/frame/flow.h"
#include "daemon/pipeline/private.h"

/* -- plain queries -------------------------------------------------------------------------------------------- */

bool pipeline_sink_has_ended(const struct pipeline *pipeline) { return pipeline->outputs && outputs_ended(pipeline->outputs); }

bool pipeline_has_ended(const struct pipeline *pipeline) {
  return inputs_ended(pipeline->inputs) || pipeline_sink_has_ended(pipeline);
}

const struct config_pipeline *pipeline_stages_config(const struct pipeline *pipeline) { return pipeline->stages_config; }

const struct config_pipeline *pipeline_config(const struct pipeline *pipeline) { return pipeline->config; }

enum pipeline_state pipeline_state(const struct pipeline *pipeline) { return pipeline->state; }

enum pipeline_state pipeline_shown_state(const struct pipeline *pipeline) {
  bool is_late =
      (pipeline->record && outputs_is_late(pipeline->record)) || (pipeline->outputs && outputs_is_late(pipeline->outputs));
  return pipeline->state == PIPELINE_RUNNING && is_late ? PIPELINE_WAITING : pipeline->state;
}

uint64_t pipeline_result_bytes_in_file(const struct pipeline *pipeline) {
  return sink_result_bytes_in_file(pipeline->config, &device_chain_record(pipeline->chain)->output);
}

unsigned pipeline_files(const struct pipeline *pipeline, struct kept_file *list, unsigned count, unsigned most) {
  return device_chain_files(pipeline->chain, list, count, most);
}

struct listener *pipeline_source_listener(const struct pipeline *pipeline) {
  return inputs_listener(pipeline->inputs);
}

struct listener *pipeline_sink_listener(const struct pipeline *pipeline) {
  return pipeline->outputs ? outputs_listener(pipeline->outputs) : NULL;
}

/* If sessions wait for different things, the lowest value is shown. */
static const int precedence[] = {
    [WAITING_FOR_READER] = 0,  [WAITING_FOR_GPU] = 1,    [WAITING_FOR_RESUME] = 2,
    [WAITING_FOR_NOTHING] = 3, [WAITING_FOR_FRAMES] = 4, [WAITING_FOR_PRODUCER] = 5,
};

enum session_waiting pipeline_waiting(const struct pipeline *pipeline) {
  enum session_waiting result = WAITING_FOR_PRODUCER;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    struct session_view view;
    session_read(inputs_session(pipeline->inputs, i), &view);
    if (precedence[view.waiting] < precedence[result]) {
      result = view.waiting;
    }
  }
  return result;
}

int64_t pipeline_last_in(const struct pipeline *pipeline) {
  int64_t last = 0;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    struct session_view view;
    session_read(inputs_session(pipeline->inputs, i), &view);
    last = view.last_in > last ? view.last_in : last;
  }
  return last;
}

int64_t pipeline_last_out(const struct pipeline *pipeline) {
  int64_t last = 0;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    struct session_view view;
    session_read(inputs_session(pipeline->inputs, i), &view);
    last = view.last_out > last ? view.last_out : last;
  }
  return last;
}

/* -- pictures ---------------------------------------------------------------------------------------------------- */

struct picture *pipeline_request_picture(struct pipeline *pipeline, unsigned producer, enum picture_side side,
                                         const char **reason) {
  struct picture *picture =
      picture_new(&device_chain_record(pipeline->chain)->input, &device_chain_record(pipeline->chain)->output, side, reason);
  if (picture) {
    session_request_picture(inputs_session(pipeline->inputs, producer), side, picture);
  }
  return picture;
}

void pipeline_end_picture(struct pipeline *pipeline, unsigned producer, enum picture_side side) {
  session_request_picture(inputs_session(pipeline->inputs, producer), side, NULL);
}

/* -- traces ------------------------------------------------------------------------------------------------------ */

unsigned pipeline_clients(const struct pipeline *pipeline) {
  return inputs_producers(pipeline->inputs) + (pipeline->outputs ? outputs_readers(pipeline->outputs) : 0);
}

unsigned pipeline_seats(const struct pipeline *pipeline) { return inputs_seats(pipeline->inputs); }

bool pipeline_copies_by_kernel(const struct pipeline *pipeline) {
  return inputs_seats(pipeline->inputs) > 0 && session_stages(inputs_session(pipeline->inputs, 0))->copy == GPU_COPY_KERNEL;
}

struct trace_ring *pipeline_trace(struct pipeline *pipeline, unsigned producer, unsigned frames) {
  return session_trace(inputs_session(pipeline->inputs, producer), frames);
}

void pipeline_trace_end(struct pipeline *pipeline, unsigned producer) {
  session_trace_end(inputs_session(pipeline->inputs, producer));
}
