#include "daemon/pipeline/private.h"

#include "daemon/base/rights.h"
#include "daemon/measure/clock.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/image.h"

/* -- making it ------------------------------------------------------------------------------------------------- */

static bool inputs_out_of_memory(struct failure *failure) {
  return failure_set_memory(failure, "not enough memory for the sessions of a pipeline");
}

static bool open_source(struct inputs *inputs, bool inherits, struct failure *failure) {
  const struct config_source *source = &inputs->config->source;
  if (source->endpoint == CONFIG_CAMERA) {
    return true; /* inputs_start() starts its process */
  }
  if (source->endpoint == CONFIG_FILE) {
    return inputs->continues || endpoint_open_source(source, &inputs->endpoint, failure);
  }
  if (!inherits) {
    inputs->listener = listener_open(inputs->config->name, source->path, &source->access, failure);
  }
  return inherits || inputs->listener;
}

static enum gpu_graph_choice graph_choice(enum config_graph graph) {
  switch (graph) {
  case CONFIG_GRAPH_ON:
    return GPU_GRAPH_ON;
  case CONFIG_GRAPH_OFF:
    return GPU_GRAPH_OFF;
  case CONFIG_GRAPH_AUTO:
    break;
  }
  return GPU_GRAPH_AUTO;
}

static bool make_no_sense(const struct inputs *inputs, struct failure *failure) {
  return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the previous process left an invalid state of the source of '%s'",
                     inputs->config->name);
}

static bool make_sessions(struct inputs *inputs, const struct inputs_setup *setup, struct failure *failure) {
  struct session_setup session = setup->session;
  session.stages.graph = graph_choice(inputs->config->graph);
  inputs->producer_setup = (struct producer_setup){
      .loop = inputs->loop, .pipeline = inputs->config->name, .renewed = inputs_on_renewed, .context = inputs};
  for (unsigned i = 0; i < inputs->count; i++) {
    session.index = i;
    session.lane = setup->lanes[i];
    session.sink_lane = setup->sink_lanes[i];
    session.device = setup->placements[i].device;
    session.devices = setup->placements[i].on;
    session.device_count = setup->placements[i].count;
    inputs->seats[i].setup = &inputs->producer_setup;
    inputs->seats[i].client.fd = -1;
    if (setup->left && !inputs_adopt_seat(inputs, &inputs->seats[i], &session)) {
      return make_no_sense(inputs, failure);
    }
    inputs->seats[i].session = session_new(&session, failure);
    if (!inputs->seats[i].session) {
      return false;
    }
    if (setup->left && !inputs_check_seat(&inputs->seats[i])) {
      return make_no_sense(inputs, failure);
    }
    /* Other sessions reuse what the first session's warm-up measured. */
    session.stages = *session_stages(inputs->seats[i].session);
    session.stages.program = NULL;
  }
  return true;
}

struct inputs *inputs_new(const struct inputs_setup *setup, struct failure *failure) {
  struct inputs *inputs = image_new(IMAGE_INPUTS, sizeof *inputs);
  if (!inputs) {
    inputs_out_of_memory(failure);
    return NULL;
  }
  inputs->loop = setup->loop;
  inputs->cameras = setup->cameras;
  inputs->camera_process.control = inputs->camera_connection = -1;
  inputs->pixels = device_chain_record(setup->session.stages.chain)->input.pixels;
  inputs->quota = setup->quota;
  inputs->config = setup->session.config;
  inputs->listen = setup->session.listener;
  inputs->context = setup->session.context;
  inputs->count = inputs->config->source.clients;
  inputs->placements = setup->placements;
  inputs->endpoint.fd = -1;
  inputs->welcome = hello_reply_of(inputs->config, &device_chain_record(setup->session.stages.chain)->input,
                                   &device_chain_record(setup->session.stages.chain)->output,
                                   inputs->config->sink.endpoint == CONFIG_REPLY ? NATIVE_BOTH : NATIVE_PRODUCER);
  inputs->seats = image_new(IMAGE_PRODUCERS, inputs->count * sizeof *inputs->seats);
  if (!inputs->seats) {
    inputs_out_of_memory(failure);
    return inputs_free(inputs);
  }
  bool sound = !setup->left || inputs_adopt(inputs, setup->left) || make_no_sense(inputs, failure);
  if (!sound || !open_source(inputs, setup->inherits, failure) || !make_sessions(inputs, setup, failure)) {
    return setup->left ? NULL : inputs_free(inputs); /* keep what was taken over, for another try */
  }
  return inputs;
}

struct inputs *inputs_none(const struct config_pipeline *config) {
  struct inputs *inputs = image_new(IMAGE_INPUTS, sizeof *inputs);
  if (inputs) {
    inputs->config = config;
    inputs->endpoint.fd = inputs->camera_connection = -1;
  }
  return inputs;
}

struct inputs *inputs_free(struct inputs *inputs) {
  if (!inputs) {
    return NULL;
  }
  for (unsigned i = 0; inputs->seats && i < inputs->count; i++) {
    quota_release(&inputs->seats[i].charge);
    if (inputs->seats[i].session) {
      inputs->seats[i].session = session_free(inputs->seats[i].session);
    }
  }
  inputs->handshakes = handshakes_close(inputs->handshakes);
  inputs->listener = listener_close(inputs->listener);
  endpoint_close(&inputs->endpoint);
  image_free(inputs->seats);
  return image_free(inputs);
}

/* -- control --------------------------------------------------------------------------------------------------- */

/* A camera says HELLO when its first picture has come. camera/ watches its process. */
static int64_t hello_time(const struct config_source *source) {
  return source->endpoint == CONFIG_CAMERA ? INT64_C(3600) * NS_PER_S : source->timeout_ns;
}

static bool inputs_start_greeting(struct inputs *inputs, struct failure *failure) {
  enum config_protocol protocol = inputs->config->source.protocol;
  if (protocol != CONFIG_PROTOCOL_NATIVE && protocol != CONFIG_PROTOCOL_AUTO) {
    return true;
  }
  const struct handshakes_setup setup = {.loop = inputs->loop,
                                         .pipeline = inputs->config->name,
                                         .who = "producer",
                                         .y4m_too = protocol == CONFIG_PROTOCOL_AUTO,
                                         .timeout_ns = hello_time(&inputs->config->source),
                                         .on_hello = inputs_on_hello,
                                         .refusals = &inputs->refusals,
                                         .context = inputs};
  inputs->handshakes = handshakes_new(&setup, failure);
  return inputs->handshakes;
}

static bool inputs_start_accepting(struct inputs *inputs, struct failure *failure) {
  if (!inputs->handshakes && !inputs_start_greeting(inputs, failure)) {
    return false;
  }
  const struct acceptor_setup setup = {.loop = inputs->loop,
                                       .fd = listener_fd(inputs->listener),
                                       .allow = &inputs->config->source.access.allow,
                                       .pipeline = inputs->config->name,
                                       .role = "producer",
                                       .native = inputs->handshakes != NULL,
                                       .accepted = inputs_on_accepted,
                                       .refusals = &inputs->refusals,
                                       .context = inputs};
  inputs->acceptor = acceptor_new(&setup, failure);
  return inputs->acceptor;
}

static bool inputs_start_source(struct inputs *inputs, struct failure *failure) {
  if (inputs->config->source.endpoint == CONFIG_CAMERA) {
    return inputs->camera_started ||
           ((inputs->handshakes || inputs_start_greeting(inputs, failure)) && inputs_start_camera(inputs, failure));
  }
  if (inputs->listener) {
    return inputs_start_accepting(inputs, failure);
  }
  if (inputs->endpoint.fd < 0) { /* the session has it, or it is at its end, or could not be opened again */
    if (inputs->endpoint.kind == ENDPOINT_FIFO && inputs->seats[0].client.fd < 0 && !inputs->ended) {
      inputs_await_next_writer(inputs);
    }
    return true;
  }
  if (inputs->endpoint.kind == ENDPOINT_FIFO) {
    inputs->discards |= !inputs->continues && fd_store_was_killed(); /* which may have read part of a frame */
    return inputs_follow_name(inputs) || inputs_await_writer(inputs, failure);
  }
  inputs_attach_file(inputs);
  return true;
}

bool inputs_start(struct inputs *inputs, struct failure *failure) {
  if (!inputs_start_source(inputs, failure)) {
    return false;
  }
  if (inputs->continues) {
    inputs_continue(inputs);
  }
  return true;
}

void inputs_suspend(struct inputs *inputs) {
  if (inputs->acceptor) {
    acceptor_suspend(inputs->acceptor);
  }
  if (inputs->handshakes) {
    handshakes_suspend(inputs->handshakes);
  }
}

void inputs_unsuspend(struct inputs *inputs) {
  if (inputs->acceptor) {
    acceptor_resume(inputs->acceptor);
  }
  if (inputs->handshakes) {
    handshakes_resume(inputs->handshakes);
  }
}

void inputs_close(struct inputs *inputs) {
  inputs->closed = true;
  inputs_close_camera(inputs);
  for (unsigned i = 0; i < inputs->count; i++) {
    producer_close(&inputs->seats[i]);
  }
  inputs->acceptor = acceptor_close(inputs->acceptor);
  inputs->handshakes = handshakes_close(inputs->handshakes);
  inputs->fifo = loop_watch_close(inputs->fifo);
  inputs->retry = loop_timer_close(inputs->retry);
  inputs->listener = listener_close(inputs->listener);
  endpoint_close(&inputs->endpoint);
  for (unsigned i = 0; i < inputs->waiting_count; i++) {
    client_send_error(&inputs->waiting[i], NATIVE_E_STOPPING, "pipeline %s is stopping", inputs->config->name);
    rights_close(inputs->waiting[i].fd);
  }
  inputs->waiting_count = 0;
}

struct listener *inputs_take_listener(struct inputs *inputs) {
  struct listener *listener = inputs->listener;
  inputs->acceptor = acceptor_close(inputs->acceptor);
  inputs->handshakes = handshakes_close(inputs->handshakes);
  inputs->listener = NULL;
  return listener;
}

void inputs_set_listener(struct inputs *inputs, struct listener *listener) { inputs->listener = listener; }

struct listener *inputs_listener(struct inputs *inputs) {
  return inputs->listener;
}

void inputs_hold(struct inputs *inputs, bool for_readers) {
  inputs->for_readers = for_readers;
  for (unsigned i = 0; i < inputs->count; i++) {
    inputs->seats[i].idle = false;
    session_hold(inputs->seats[i].session, for_readers);
  }
}

void inputs_leave_partial(struct inputs *inputs) {
  inputs->leaves_partial = true;
  for (unsigned i = 0; i < inputs->count; i++) {
    session_leave_partial(inputs->seats[i].session);
  }
}

void inputs_resume(struct inputs *inputs) {
  for (unsigned i = 0; i < inputs->count; i++) {
    inputs->seats[i].idle = false;
    session_resume(inputs->seats[i].session);
  }
}

void inputs_stop(struct inputs *inputs) {
  inputs->stops = true;
  for (unsigned i = 0; i < inputs->count; i++) {
    session_stop(inputs->seats[i].session);
  }
}

/* -- replacing the stages -------------------------------------------------------------------------------------- */

bool inputs_take_labels(struct inputs *inputs, const struct device_chain *chain) {
  bool taken = true;
  for (unsigned i = 0; taken && i < inputs->count; i++) {
    taken = session_take_labels(inputs->seats[i].session, chain);
  }
  return taken;
}

bool inputs_freeze(struct inputs *inputs) {
  bool still = true;
  inputs->producer_setup.frozen = true;
  for (unsigned i = 0; i < inputs->count; i++) {
    still = still && (!inputs->seats[i].renewing || inputs->seats[i].postponed);
  }
  return still;
}

void inputs_thaw(struct inputs *inputs) {
  inputs->producer_setup.frozen = false;
  for (unsigned i = 0; i < inputs->count; i++) {
    producer_renew_postponed(&inputs->seats[i]);
  }
}

bool inputs_prepare_stages(struct inputs *inputs, struct device_chain *chain, struct failure *failure) {
  struct session_stages stages = {.chain = chain, .graph = graph_choice(inputs->config->graph)};
  bool prepared = true;
  for (unsigned i = 0; prepared && i < inputs->count; i++) {
    prepared = session_prepare_stages(inputs->seats[i].session, &stages, failure);
    stages = *session_other_stages(inputs->seats[i].session);
  }
  return prepared;
}

void inputs_change_stages(struct inputs *inputs) {
  for (unsigned i = 0; i < inputs->count; i++) {
    inputs->seats[i].changing = true;
    session_change_stages(inputs->seats[i].session);
  }
}

bool inputs_changed(const struct inputs *inputs) {
  bool changed = true;
  for (unsigned i = 0; i < inputs->count; i++) {
    changed = changed && !inputs->seats[i].changing;
  }
  return changed;
}

void inputs_drop_stages(struct inputs *inputs) {
  for (unsigned i = 0; i < inputs->count; i++) {
    session_drop_stages(inputs->seats[i].session);
  }
}

/* -- queries --------------------------------------------------------------------------------------------------- */

bool inputs_held(const struct inputs *inputs) {
  bool held = true;
  for (unsigned i = 0; i < inputs->count; i++) {
    held = held && session_is_held(inputs->seats[i].session);
  }
  return held;
}

bool inputs_idle(const struct inputs *inputs) {
  bool idle = true;
  for (unsigned i = 0; i < inputs->count; i++) {
    idle = idle && inputs->seats[i].idle;
  }
  return idle;
}

bool inputs_stopped(const struct inputs *inputs) {
  bool stopped = true;
  for (unsigned i = 0; i < inputs->count; i++) {
    stopped = stopped && inputs->seats[i].stopped && !inputs->seats[i].renewing;
  }
  return stopped;
}

bool inputs_ended(const struct inputs *inputs) { return inputs->ended; }

unsigned inputs_seats(const struct inputs *inputs) { return inputs->count; }

struct session *inputs_session(const struct inputs *inputs, unsigned producer) {
  return inputs->seats[producer].session;
}

unsigned inputs_producers(const struct inputs *inputs) {
  unsigned count = 0;
  for (unsigned i = 0; i < inputs->count; i++) {
    count += inputs->seats[i].client.fd >= 0 && !inputs->seats[i].cut;
  }
  return count;
}

const struct refusals *inputs_refusals(const struct inputs *inputs) { return &inputs->refusals; }

const struct trouble *inputs_trouble(const struct inputs *inputs) {
  return inputs->trouble.count > 0 ? &inputs->trouble : &inputs->memory;
}
