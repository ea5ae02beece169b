#include "daemon/pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/device/formats.h"
#include "daemon/pipeline/placement.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/image.h"

/* -- making it ------------------------------------------------------------------------------------------------- */

static bool pipeline_out_of_memory(struct failure *failure) {
  return failure_set_memory(failure, "not enough memory for one more pipeline");
}

static bool pipeline_negotiate(struct pipeline *pipeline, struct failure *failure) {
  struct gpu_error error = {.stage = -1};
  size_t input_bytes;
  pipeline->input = formats_format(&pipeline->config->source.format);
  pipeline->chain = formats_chain(engine_main_device(pipeline->setup.engine), CONFIG_BACKEND_AUTO, pipeline->config, &error);
  if (!pipeline->chain) {
    return engine_failure(failure, &error);
  }
  if (!format_bytes(&pipeline->input, &input_bytes) ||
      !format_bytes(&device_chain_record(pipeline->chain)->output, &pipeline->result_bytes)) {
    return failure_set(failure, EXIT_STATUS_CONFIG, NULL, "the frames of pipeline '%s' are too large", pipeline->config->name);
  }
  pipeline->frame_bytes = input_bytes;
  return true;
}

static bool pipeline_place(struct pipeline *pipeline, struct failure *failure) {
  unsigned count = pipeline->config->source.clients;
  pipeline->lanes = calloc(count, sizeof(struct lane *));
  pipeline->sink_lanes = calloc(count, sizeof(struct lane *));
  pipeline->placements = calloc(count, sizeof *pipeline->placements);
  pipeline->meter = meter_new();
  if (!pipeline->lanes || !pipeline->sink_lanes || !pipeline->placements || !pipeline->meter) {
    return pipeline_out_of_memory(failure);
  }
  /* Large lossless results are written on another lane. */
  const struct config_sink *sink = &pipeline->config->sink;
  bool lossless = sink->endpoint != CONFIG_SOCKET || sink->overload == CONFIG_SINK_BLOCK;
  bool apart = lossless && placement_parts(pipeline->result_bytes, engine_lanes(pipeline->setup.engine));
  pipeline->frame_bytes += apart ? 0 : pipeline->result_bytes;
  for (unsigned i = 0; i < count; i++) {
    pipeline->lanes[i] = engine_choose_lane(pipeline->setup.engine, pipeline->frame_bytes);
    if (apart) {
      pipeline->sink_lanes[i] = engine_choose_other_lane(pipeline->setup.engine, pipeline->lanes[i], pipeline->result_bytes);
    }
  }
  return true;
}

struct pipeline *pipeline_new(const struct pipeline_setup *setup, const struct config_pipeline *config,
                              struct failure *failure) {
  struct pipeline *pipeline = image_new(IMAGE_PIPELINE, sizeof *pipeline);
  if (!pipeline) {
    pipeline_out_of_memory(failure);
    return NULL;
  }
  pipeline->setup = *setup;
  pipeline->config = pipeline->stages_config = config;
  pipeline->wait.then = PIPELINE_RUNNING;
  pipeline->pauses = (struct pending_requests){.loop = setup->loop, .expired = pipeline_on_pause_expired, .owner = pipeline};
  pipeline->drains = (struct pending_requests){.loop = setup->loop, .expired = pipeline_on_drain_expired, .owner = pipeline};
  return pipeline_negotiate(pipeline, failure) && pipeline_place(pipeline, failure) ? pipeline : pipeline_free(pipeline);
}

/* -- preparing it, on a set-up thread ---------------------------------------------------------------------------- */

static bool share_outputs(void *context, struct session_outputs *shared, struct failure *failure) {
  return inputs_share_outputs(((struct pipeline *)context)->inputs, shared, failure);
}

static bool make_outputs(struct pipeline *pipeline, bool inherits, struct failure *failure) {
  if (pipeline->config->sink.endpoint == CONFIG_REPLY) {
    return true;
  }
  const struct chain_record *record = device_chain_record(pipeline->chain);
  const struct outputs_setup setup = {.loop = pipeline->setup.loop,
                                      .sink = {.config = pipeline->config,
                                               .lane = pipeline->sink_lanes[0] ? pipeline->sink_lanes[0] : pipeline->lanes[0],
                                               .control = pipeline->setup.control,
                                               .listener = pipeline_on_sink_event,
                                               .context = pipeline,
                                               .input = &pipeline->input,
                                               .output = &device_chain_record(pipeline->chain)->output,
                                               .labels = (const char *const *)record->labels,
                                               .label_count = record->label_count},
                                      .share = share_outputs,
                                      .quota = pipeline->setup.quota,
                                      .continues = pipeline->continues,
                                      .inherits = inherits};
  pipeline->outputs = outputs_new(&setup, failure);
  return pipeline->outputs;
}

/* The recording is the sink of a pipeline whose results are the input frames. It is not handed over. */
static bool make_record(struct pipeline *pipeline, struct failure *failure) {
  const struct config_pipeline *config = pipeline->config;
  if (!config->record.file) {
    return true;
  }
  pipeline->record_config = (struct config_pipeline){.at = config->at,
                                                     .name = config->name,
                                                     .device = config->device,
                                                     .source = config->source,
                                                     .slots = config->slots,
                                                     .sink = {.at = config->record.file_at,
                                                              .endpoint = CONFIG_FILE,
                                                              .path = config->record.file,
                                                              .protocol = config->record.protocol,
                                                              .overload = CONFIG_SINK_BLOCK,
                                                              .rotate = config->record.rotate,
                                                              .records = true}};
  const struct outputs_setup setup = {.loop = pipeline->setup.loop,
                                      .sink = {.config = &pipeline->record_config,
                                               .lane = pipeline->lanes[0],
                                               .control = pipeline->setup.control,
                                               .listener = pipeline_on_record_event,
                                               .context = pipeline,
                                               .input = &pipeline->input,
                                               .output = &pipeline->input},
                                      .quota = pipeline->setup.quota,
                                      .may_be_late = true,
                                      .opened = pipeline_on_record_opened};
  const struct recorder_setup recorder = {.config = config,
                                          .input = &pipeline->input,
                                          .output = &device_chain_record(pipeline->chain)->output,
                                          .lane = pipeline->lanes[0],
                                          .control = pipeline->setup.control,
                                          .stopped = pipeline_on_record_stopped,
                                          .context = pipeline};
  pipeline->record = outputs_new(&setup, failure);
  pipeline->recorder = pipeline->record ? recorder_new(&recorder, failure) : NULL;
  return pipeline->recorder;
}

static bool make_inputs(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance, const struct inputs *left,
                        struct failure *failure) {
  const struct inputs_setup setup = {.loop = pipeline->setup.loop,
                                     .session = {.config = pipeline->config,
                                                 .control = pipeline->setup.control,
                                                 .listener = pipeline_on_session_event,
                                                 .context = pipeline,
                                                 .stages = {.chain = pipeline->chain},
                                                 .gpu_timeout_ns = pipeline->setup.gpu_timeout_ns,
                                                 .tap = recorder_tap(pipeline->recorder),
                                                 .sink = pipeline->outputs ? outputs_sink(pipeline->outputs) : NULL},
                                     .quota = pipeline->setup.quota,
                                     .cameras = pipeline->setup.cameras,
                                     .lanes = pipeline->lanes,
                                     .sink_lanes = pipeline->sink_lanes,
                                     .placements = pipeline->placements,
                                     .inherits = inheritance->source,
                                     .left = left};
  pipeline->inputs = inputs_new(&setup, failure);
  return pipeline->inputs;
}

bool pipeline_prepare(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance, struct failure *failure) {
  const struct pipeline *left = image_left_at(inheritance->left, IMAGE_PIPELINE, sizeof *left);
  if (inheritance->left && !(left && pipeline_adopt(pipeline, left))) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the previous process left an invalid state of '%s'",
                       pipeline->config->name);
  }
  const size_t needed = device_chain_bytes(pipeline->chain, pipeline->config->slots);
  return engine_assign_devices(pipeline->setup.engine, pipeline->config, pipeline->placements, pipeline->config->source.clients,
                               pipeline->frame_bytes, needed, failure) &&
         make_outputs(pipeline, inheritance->sink, failure) && make_record(pipeline, failure) &&
         make_inputs(pipeline, inheritance, pipeline->continues ? left->inputs : NULL, failure) &&
         (!pipeline->continues || pipeline_adopt_outputs(pipeline, left, failure));
}

static bool pass_on(struct listener *listener, const struct config_socket_access *access, struct failure *failure) {
  return !listener || listener_set_access(listener, access, failure);
}

/* The listener of `owner` at `path`. One pipeline's sink may become another one's source. */
static struct listener *pipeline_find_listener(struct pipeline *owner, const char *path) {
  struct listener *listener = inputs_listener(owner->inputs);
  if (listener && strcmp(listener_path(listener), path) == 0) {
    return listener;
  }
  listener = owner->outputs ? outputs_listener(owner->outputs) : NULL;
  return listener && strcmp(listener_path(listener), path) == 0 ? listener : NULL;
}

bool pipeline_prepare_inherited(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance,
                                struct failure *failure) {
  const struct config_source *source = &pipeline->config->source;
  const struct config_sink *sink = &pipeline->config->sink;
  if (inheritance->source && !pass_on(pipeline_find_listener(inheritance->source, source->path), &source->access, failure)) {
    return false;
  }
  if (!inheritance->sink) {
    return true;
  }
  return pass_on(pipeline_find_listener(inheritance->sink, sink->path), &sink->access, failure) &&
         outputs_open_file(pipeline->outputs, inheritance->sink->outputs, failure);
}

static void restore(const struct pipeline *pipeline, struct listener *listener, const struct config_socket_access *access) {
  struct failure failure;
  if (!pass_on(listener, access, &failure)) {
    log_event(LOG_FAILED, pipeline->config->name, "a socket may have other rights than the configuration says: %s",
              failure.text);
  }
}

void pipeline_restore_access(struct pipeline *pipeline) {
  restore(pipeline, pipeline_source_listener(pipeline), &pipeline->config->source.access);
  restore(pipeline, pipeline_sink_listener(pipeline), &pipeline->config->sink.access);
}

static struct listener *take_listener(struct pipeline *owner, const char *path) {
  struct listener *listener = pipeline_find_listener(owner, path);
  return listener == inputs_listener(owner->inputs) ? inputs_take_listener(owner->inputs)
                                                    : outputs_take_listener(owner->outputs);
}

void pipeline_inherit(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance) {
  const struct config_source *source = &pipeline->config->source;
  const struct config_sink *sink = &pipeline->config->sink;
  if (inheritance->source && source->endpoint == CONFIG_SOCKET) {
    inputs_set_listener(pipeline->inputs, take_listener(inheritance->source, source->path));
  }
  if (inheritance->camera) {
    inputs_move_camera(pipeline->inputs, inheritance->camera->inputs);
  }
  if (inheritance->sink && sink->endpoint == CONFIG_SOCKET) {
    outputs_set_listener(pipeline->outputs, take_listener(inheritance->sink, sink->path));
  }
}

/* -- giving it back ----------------------------------------------------------------------------------------------- */

void pipeline_release(struct pipeline *pipeline) {
  pipeline->inputs = inputs_free(pipeline->inputs);
  pipeline->outputs = outputs_free(pipeline->outputs);
  pipeline->record = outputs_free(pipeline->record);
  pipeline->recorder = recorder_free(pipeline->recorder);
}

static void unplace(struct pipeline *pipeline) {
  struct engine *engine = pipeline->setup.engine;
  for (unsigned i = 0; pipeline->lanes && i < pipeline->config->source.clients && pipeline->lanes[i]; i++) {
    engine_release_lane(engine, pipeline->lanes[i], pipeline->frame_bytes);
    if (pipeline->sink_lanes[i]) {
      engine_release_lane(engine, pipeline->sink_lanes[i], pipeline->result_bytes);
    }
    engine_release_devices(engine, &pipeline->placements[i], pipeline->frame_bytes);
  }
}

struct pipeline *pipeline_free(struct pipeline *pipeline) {
  if (!pipeline) {
    return NULL;
  }
  unplace(pipeline);
  device_chain_free(pipeline->chain);
  meter_free(pipeline->meter);
  free(pipeline->lanes);
  free(pipeline->sink_lanes);
  free(pipeline->placements);
  return image_free(pipeline);
}
