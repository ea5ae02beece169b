/*
 * Making and freeing a session: arenas, device program, flow. For set-up threads; may block.
 *
 * A session may share its memory with a client, and then gets new memory before its next client. A client keeps what it mapped
 * as long as it likes, so memory that one client saw is never used for another. When the client is gone the session gets new
 * arenas and a new program. The pages of the old arenas go back to the kernel. When the pipeline ends, the pages stay, because
 * its clients will send the frames in them to the next pipeline.
 *
 * A client gets the outputs read-only, and the daemon owns the file, so other users cannot open it again for writing. A client
 * that runs as the daemon's user can.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/device/formats.h"
#include "daemon/session/private.h"

static void wake_from_sink(void *context) {
  struct session *session = context;
  if (!session->looks) {
    lane_schedule(&session->runner);
  }
}

/* An arena that has a descriptor comes from the previous process. */
static bool take_arena(struct arena *arena, const char *name, size_t frame_bytes, unsigned slots, struct device *device,
                       struct failure *failure) {
  return arena->fd >= 0 ? arena_adopt(arena, name, frame_bytes, slots, arena->fd, device, failure)
                        : arena_make(arena, name, frame_bytes, slots, device, failure);
}

static bool make_memory(struct session *session, struct failure *failure) {
  const struct session_setup *setup = &session->setup;
  struct flow *flow = &session->flow;
  char name[96];
  snprintf(name, sizeof name, "framed:%s.%u:in", setup->config->name, setup->index);
  if (!take_arena(&session->inputs, name, flow->input_bytes, flow->ring.count, setup->device, failure)) {
    return false;
  }
  snprintf(name, sizeof name, "framed:%s.%u:out", setup->config->name, setup->index);
  if (!take_arena(&session->outputs, name, flow->output_bytes, flow->ring.count, setup->device, failure)) {
    return false;
  }
  snprintf(name, sizeof name, "framed:%s.%u:control", setup->config->name, setup->index);
  if (session->control.fd >= 0 && !take_arena(&session->control, name, NATIVE_CONTROL, 1, NULL, failure)) {
    return false;
  }
  for (unsigned i = 0; i < flow->ring.count; i++) {
    flow->ring.slots[i].input = session->inputs.base + i * arena_stride(flow->input_bytes);
    flow->ring.slots[i].output = session->outputs.base + i * arena_stride(flow->output_bytes);
  }
  return true;
}

static bool make_discard(struct session *session, struct failure *failure) {
  if (session->flow.overload != CONFIG_OVERLOAD_DROP_NEWEST) {
    return true;
  }
  session->discard = malloc(RECEIVE_DISCARD);
  return session->discard || failure_set_memory(failure, "no memory for a session of '%s'", session->setup.config->name);
}

/* Makes the arenas and the program that uses them. For a set-up thread. */
static bool session_take_memory(struct session *session, struct failure *failure) {
  session->flow.memory += session->outputs.fd < 0;
  return make_memory(session, failure) && session_make_program(session, failure);
}

/* -- shared with a client -------------------------------------------------------------------------------------------- */

bool session_share(struct session *session, struct session_share *share, struct failure *failure) {
  char name[96];
  *share = (struct session_share){.input = -1, .output = -1, .control = -1};
  snprintf(name, sizeof name, "framed:%s.%u:control", session->setup.config->name, session->setup.index);
  if (!arena_make(&session->control, name, NATIVE_CONTROL, 1, NULL, failure)) {
    return false;
  }
  share->input = arena_open(&session->inputs, O_RDWR, failure);
  share->output = arena_open(&session->outputs, O_RDONLY, failure);
  share->control = arena_open(&session->control, O_RDWR, failure);
  if (share->input < 0 || share->output < 0 || share->control < 0) {
    const int opened[] = {share->input, share->output, share->control};
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
      if (opened[i] >= 0) {
        close(opened[i]);
      }
    }
    arena_drop(&session->control);
    return false;
  }
  share->input_stride = arena_stride(session->flow.input_bytes);
  share->output_stride = arena_stride(session->flow.output_bytes);
  share->control_bytes = NATIVE_CONTROL;
  return true;
}

bool session_share_outputs(const struct session *session, struct session_outputs *outputs, struct failure *failure) {
  *outputs = (struct session_outputs){.output = arena_open(&session->outputs, O_RDONLY, failure),
                                      .stride = arena_stride(session->flow.output_bytes),
                                      .memory = session->flow.memory};
  return outputs->output >= 0;
}

bool session_renew(struct session *session, struct failure *failure) {
  void (*const let_go)(struct arena * arena) = session->cut_client ? arena_drop : arena_discard;
  session->cut_client = false;
  session_free_program(session);
  let_go(&session->inputs);
  let_go(&session->outputs);
  let_go(&session->control);
  return session_take_memory(session, failure);
}

/* -- the session as a whole ------------------------------------------------------------------------------------------ */

static bool make_sink(struct session *session, const struct frame_format *output, struct failure *failure) {
  const struct session_setup *setup = &session->setup;
  session->sink = setup->sink;
  session->is_reply = setup->sink == NULL;
  if (session->is_reply) {
    struct lane *lane = setup->sink_lane ? setup->sink_lane : setup->lane;
    struct sink_setup own = {.config = setup->config, .lane = lane, .control = setup->control, .output = output};
    own.labels = (const char *const *)device_chain_record(setup->stages.chain)->labels;
    own.label_count = device_chain_record(setup->stages.chain)->label_count;
    session->sink = sink_new_reply(&own, session_on_client_gone, session, failure);
  }
  if (session->sink && session->sink->lane != setup->lane) {
    relay_init(&session->relay, &session->flow);
    spsc_init(&session->relay.back, setup->lane, &session->runner);
    sink_join_handoff(session->sink, &session->relay);
  }
  return session->sink != NULL;
}

static void set_up_flow(struct session *session) {
  const struct config_pipeline *config = session->setup.config;
  struct flow *flow = &session->flow;
  slot_ring_init(&flow->ring, config->slots);
  flow->account = &session->account;
  flow->devices = session->setup.devices;
  flow->device_count = session->setup.device_count;
  flow->seat = session->setup.index;
  flow->depth = flow_depth(config->overload, config->slots, config->deadline_ns > 0);
  flow->overload = config->overload;
  flow->deadline_ns = config->deadline_ns;
  flow->spin = config->completion != CONFIG_COMPLETION_CALLBACK;
  flow->awaits_answers = config->completion == CONFIG_COMPLETION_SPIN;
  flow->tap = session->setup.tap;
  flow->wake = wake_from_sink;
  flow->session = session;
}

struct session *session_new(const struct session_setup *setup, struct failure *failure) {
  const struct frame_format *input = &device_chain_record(setup->stages.chain)->input;
  struct session *session = image_new(IMAGE_SESSION, sizeof *session);
  if (!session) {
    failure_set_memory(failure, "no memory for a session of '%s'", setup->config->name);
    return NULL;
  }
  session->setup = *setup;
  session->stages[0] = setup->stages;
  session->on_gpu = strcmp(device_backend_name(setup->device), "cuda") == 0;
  session->inputs = session->outputs = session->control = ARENA_NONE;
  session->runner =
      (struct runner){.turn = session_turn, .tick = session_tick, .priority = formats_priority(setup->config->priority)};
  set_up_flow(session);
  if (!format_bytes(input, &session->flow.input_bytes) ||
      !format_bytes(&device_chain_record(setup->stages.chain)->output, &session->flow.output_bytes)) {
    failure_set(failure, EXIT_STATUS_CONFIG, NULL, "the frames of '%s' have no size", setup->config->name);
    return session_free(session);
  }
  if (!make_discard(session, failure) || !make_sink(session, &device_chain_record(setup->stages.chain)->output, failure)) {
    return session_free(session);
  }
  receive_init(&session->receive, &session->flow, setup->config->source.protocol, input, session->discard);
  session->receive.rate = y4m_rate_of(setup->config->source.rate);
  session->source.runner = &session->runner;
  session->source.receive = &session->receive;
  session->source.closed = session_on_source_closed;
  /* A file or standard input that stalls blocks no other producer, so it needs no timeout. */
  session->source.timeout_ns = setup->config->source.endpoint != CONFIG_FILE ? setup->config->source.timeout_ns : 0;
  session->source.rate = setup->config->source.rate;
  session->source.loop = setup->config->source.loop;
  if (!source_load_recording(&session->source, &setup->config->source, setup->config->name, failure)) {
    return setup->left ? NULL : session_free(session);
  }
  session->account.now.waiting = WAITING_FOR_PRODUCER;
  session->unreported = 1U << SESSION_NOT_READ | 1U << SESSION_FOREIGN;
  session->setup.left = NULL;
  if ((setup->left && !session_adopt(session, setup->left, setup->left_memory, failure)) ||
      !session_take_memory(session, failure)) {
    return setup->left ? NULL : session_free(session); /* inputs_new() frees it */
  }
  session_keep_choices(session);
  account_publish(&session->account);
  return session;
}

struct session *session_free(struct session *session) {
  if (!session) {
    return NULL;
  }
  assert(!session->runner.lane);
  session_drop_stages(session);
  session_free_program(session);
  arena_drop(&session->inputs);
  arena_drop(&session->outputs);
  arena_drop(&session->control);
  if (session->is_reply && session->sink) {
    session->sink->tail = session->sink->first; /* a sink that was taken over and never ran may have results */
    sink_free(session->sink);
  }
  flow_request_picture(&session->flow, PICTURE_IN, NULL);
  flow_request_picture(&session->flow, PICTURE_OUT, NULL);
  reader_free(session->attach_reader);
  trace_ring_drop(session->trace);
  source_drop_recording(&session->source);
  free(session->discard);
  return image_free(session);
}

size_t session_record_bytes(void) { return sizeof(struct session); }

size_t session_memory(const struct session *session) { return session->inputs.bytes + session->outputs.bytes; }

size_t session_pinned_bytes(const struct config_pipeline *config, const struct device_chain *chain, size_t input_bytes) {
  size_t output_bytes = 0;
  format_bytes(&device_chain_record(chain)->output, &output_bytes);
  return arena_bytes(input_bytes, config->slots) + arena_bytes(output_bytes, config->slots);
}

void session_read(const struct session *session, struct session_view *view) { account_read(&session->account, view); }

const struct histogram *session_histogram(const struct session *session, enum step step) {
  return &session->account.steps[step];
}

void session_request_picture(struct session *session, enum picture_side side, struct picture *picture) {
  flow_request_picture(&session->flow, side, picture);
}

struct trace_ring *session_trace(struct session *session, unsigned frames) {
  if (!session->trace) {
    session->trace = trace_ring_new(frames);
  }
  atomic_store_explicit(&session->account.trace, session->trace, memory_order_release);
  return session->trace;
}

void session_trace_end(struct session *session) { atomic_store_explicit(&session->account.trace, NULL, memory_order_relaxed); }
