/*
 * The life of a session: from its memory to its end. What happens in one turn stands in turn().
 *
 * A producer is attached, ends (SOURCE_ENDED), and its descriptor goes back: at once as a rule, with `reply` when its
 * last result is out. Frames outlive the producer that sent them. A stop ends everything and waits for the device.
 */
#include "daemon/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/arena.h"
#include "daemon/completion.h"
#include "daemon/dispatch.h"
#include "daemon/emit.h"
#include "daemon/sink_results.h"
#include "daemon/source.h"

#define SPIN_A_TURN (50 * NS_PER_US)
#define QUIET_AFTER (200 * NS_PER_MS) /* then status says what a session waits for */

enum { ROUNDS_A_TURN = 8 };

/* Embedded messages: nothing is allocated to talk. */
struct order {
  struct message message;
  struct session *session;
};

struct notice {
  struct message message;
  struct session_event event;
};

struct session {
  struct runner runner; /* first */
  struct session_setup setup;
  struct road road;
  struct account account;
  struct fill fill;
  struct source source;
  struct sink *sink;
  bool is_reply;
  bool client_gone; /* reply: the client takes no more results */
  bool idle_owed;   /* held, and SESSION_IDLE was not told yet */
  bool stopping;
  bool fault_told;
  struct arena inputs, outputs;
  unsigned char *discard;

  struct order attach_order, hold_order, stop_order;
  int attach_fd;
  struct reader *attach_reader;
  atomic_bool hold_wanted, hold_posted, idle_posted;
  struct notice detached, idle, stopped, fault;
};

/* -- events ------------------------------------------------------------------------------------------------------- */

static void deliver(struct message *message) {
  struct notice *notice = (struct notice *)message;
  struct session *session = notice->event.session;
  struct session_event event = notice->event; /* the receiver may free what the notice is embedded in */
  if (notice == &session->idle) {
    atomic_store(&session->idle_posted, false);
  }
  session->setup.listener(session->setup.context, &event);
}

static void tell(struct session *session, struct notice *notice, enum session_event_kind kind) {
  notice->message.run = deliver;
  notice->event.kind = kind;
  notice->event.session = session;
  mailbox_post(session->setup.control, &notice->message);
}

static void tell_detached(struct session *session, enum detach_reason reason, const char *text) {
  struct session_event *event = &session->detached.event;
  event->fd = session->attach_fd;
  event->reason = reason;
  event->frames = session->fill.sequence;
  snprintf(event->text, sizeof event->text, "%s", text);
  session->account.now.attached = false;
  tell(session, &session->detached, SESSION_DETACHED);
}

static void tell_fault(struct session *session, unsigned failed) {
  const struct gpu_error *error = &session->road.device_error;
  struct session_event *event = &session->fault.event;
  session->fault_told = true;
  event->frames = failed;
  snprintf(event->text, sizeof event->text, "%.190s%s%.60s", error->text, error->remedy[0] ? "; " : "", error->remedy);
  tell(session, &session->fault, SESSION_GPU_FAULT);
}

/* -- one turn --------------------------------------------------------------------------------------------------- */

/* With `reply` and no client the results have nowhere to go. */
static bool drop_all(struct session *session, enum slot_state state, enum fate fate, int64_t now) {
  struct road *road = &session->road;
  bool moved = slot_count(&road->ring, state) > 0;
  while (slot_count(&road->ring, state) > 0) {
    road_drop(road, slot_oldest(&road->ring, state), fate, now);
  }
  return moved;
}

/* A frame waits for a slot that only slow readers hold. */
static bool wants_slot(const struct session *session) {
  const struct slot_ring *ring = &session->road.ring;
  if (slot_count(ring, SLOT_EMITTING) == 0) {
    return false;
  }
  bool to_dispatch = slot_count(ring, SLOT_READY) > 0 && road_taken(&session->road) >= session->road.depth;
  bool to_fill = slot_count(ring, SLOT_FREE) == 0 && source_waits(&session->source) && !session->fill.held;
  return to_dispatch || to_fill;
}

static bool emit(struct session *session, int64_t now) {
  if (session->client_gone || session->stopping) {
    enum fate fate = session->stopping ? FATE_SHUTDOWN : FATE_CLIENT_GONE;
    bool moved = drop_all(session, SLOT_DONE, fate, now);
    return drop_all(session, SLOT_READY, fate, now) || moved;
  }
  bool moved = emit_turn(&session->road, session->sink);
  if (moved && sink_turn(session->sink, now)) {
    lane_schedule(&session->sink->runner);
  }
  return moved;
}

/* Downstream first, so that what a step frees is there for the one before it. */
static bool turn_once(struct session *session, int64_t now) {
  struct road *road = &session->road;
  bool moved = completion_turn(road, now);
  if (moved) {
    atomic_store_explicit(session->setup.device_completion, now, memory_order_relaxed);
  }
  moved |= emit(session, now);
  if (wants_slot(session)) {
    moved |= sink_reclaim(session->sink, now);
  }
  moved |= dispatch_turn(road, now);
  moved |= source_turn(&session->source, now);
  if (road->device_dead && !session->fault_told) {
    session->fill.held = true;
    tell_fault(session, completion_fail(road, now));
  }
  return moved;
}

static void finish_source(struct session *session);
static void finish_hold(struct session *session);
static bool finish_stop(struct session *session);

static void publish(struct session *session, int64_t now) {
  struct session_view *view = &session->account.now;
  const struct slot_ring *ring = &session->road.ring;
  bool quiet = now - session->road.active > QUIET_AFTER;
  view->ledger.in_flight = road_in_flight(&session->road);
  view->waiting = WAITING_FOR_NOTHING;
  if (slot_count(ring, SLOT_EMITTING) > 0 && quiet) {
    view->waiting = WAITING_FOR_READER;
  } else if (slot_count(ring, SLOT_RUNNING) > 0 && quiet) {
    view->waiting = WAITING_FOR_GPU;
  } else if (session->fill.held) {
    view->waiting = WAITING_FOR_RESUME;
  } else if (!view->attached) {
    view->waiting = WAITING_FOR_PRODUCER;
  } else if (quiet) {
    view->waiting = WAITING_FOR_FRAMES;
  }
#ifdef FRAMED_CHECK
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += view->ledger.fates[fate];
  }
  assert(view->ledger.in == settled + view->ledger.in_flight);
#endif
  account_publish(&session->account);
}

/* Whether to look again without sleeping, although nothing moved. */
static bool keep_spinning(struct session *session, int64_t now) {
  struct road *road = &session->road;
  if (!road->spin) {
    return false;
  }
  if (now - road->active < session->setup.config->spin_for_ns) {
    source_poke(&session->source);
    return true;
  }
  return !completion_arm(road);
}

static bool turn(struct runner *runner) {
  struct session *session = (struct session *)runner;
  int64_t start = clock_now();
  int64_t now = start;
  bool again = true;
  for (int round = 0; again && (round < ROUNDS_A_TURN || session->road.spin); round++) {
    again = turn_once(session, now) || keep_spinning(session, now);
    now = clock_now();
    if (now - start > SPIN_A_TURN && round > 0) {
      break;
    }
  }
  finish_source(session);
  finish_hold(session);
  publish(session, now);
  return !finish_stop(session) && again;
}

static void tick(struct runner *runner, int64_t now) {
  struct session *session = (struct session *)runner;
  int64_t device_completion = atomic_load_explicit(session->setup.device_completion, memory_order_relaxed);
  source_tick(&session->source, now);
  completion_check(&session->road, device_completion, session->setup.gpu_timeout_ns, now);
  if (session->road.device_dead && !session->fault_told) {
    lane_schedule(&session->runner);
  }
  publish(session, now);
}

/* -- ends ---------------------------------------------------------------------------------------------------------- */

/* The producer ended: its descriptor goes back, with `reply` when it got its last result. */
static void finish_source(struct session *session) {
  if (session->source.state != SOURCE_ENDED) {
    return;
  }
  if (session->is_reply) {
    if (road_in_flight(&session->road) > 0 && !session->stopping && !session->road.device_dead) {
      return;
    }
    sink_detach_here(session->sink);
    if (!sink_is_empty(session->sink)) {
      return; /* on_client_gone() asks for a turn */
    }
  }
  source_close(&session->source);
}

static void on_source_closed(struct source *source) {
  struct session *session = (struct session *)((char *)source - offsetof(struct session, source));
  session->client_gone = false;
  tell_detached(session, source->reason, source->text);
  lane_schedule(&session->runner);
}

/* The client of a `reply` session left, or its handle is closed now. */
static void on_client_gone(void *context, const char *why) {
  struct session *session = context;
  if (session->source.state == SOURCE_OPEN || (session->source.state == SOURCE_ENDED && !sink_is_empty(session->sink))) {
    if (session->source.state == SOURCE_OPEN) {
      source_end(&session->source, DETACH_CLIENT_GONE, "it takes no more results%s%s", why[0] ? ": " : "", why);
    }
    session->client_gone = true;
    sink_discard(session->sink, FATE_CLIENT_GONE, clock_now());
  }
  lane_schedule(&session->runner);
}

/* Nothing is left of any frame: not in a read under way, nor, where nothing may be lost, before the slowest reader. */
static bool is_idle(const struct session *session) {
  bool emitting = session->sink->block && slot_count(&session->road.ring, SLOT_EMITTING) > 0;
  return session->fill.held && !session->fill.begun && !session->source.reading && !emitting &&
         road_in_flight(&session->road) == 0;
}

static void finish_hold(struct session *session) {
  if (session->idle_owed && is_idle(session) && !atomic_exchange(&session->idle_posted, true)) {
    session->idle_owed = false;
    tell(session, &session->idle, SESSION_IDLE);
  }
}

/* True: the session has left its lane. */
static bool finish_stop(struct session *session) {
  const struct slot_ring *ring = &session->road.ring;
  if (!session->stopping || session->source.state != SOURCE_NONE || road_in_flight(&session->road) > 0 ||
      slot_count(ring, SLOT_RUNNING) > 0 || slot_count(ring, SLOT_EMITTING) > 0) {
    return false;
  }
  if (session->is_reply) {
    sink_detach_here(session->sink);
    if (!sink_is_empty(session->sink)) {
      return false;
    }
    lane_leave(&session->sink->runner);
  }
  lane_leave(&session->runner);
  tell(session, &session->stopped, SESSION_STOPPED);
  return true;
}

/* -- orders of the control loop ------------------------------------------------------------------------------------ */

static struct session *ordered(struct message *message) {
  struct session *session = ((struct order *)message)->session;
  if (!session->runner.lane) {
    lane_join(session->setup.lane, &session->runner);
  }
  lane_schedule(&session->runner);
  return session;
}

static void post(struct session *session, struct order *order, void (*run)(struct message *message)) {
  order->message.run = run;
  order->session = session;
  lane_post(session->setup.lane, &order->message);
}

static void run_attach(struct message *message) {
  struct session *session = ordered(message);
  session->account.now.attached = true;
  session->road.active = clock_now();
  session->fill.sequence = 0;
  if (session->is_reply && !session->attach_reader) {
    tell_detached(session, DETACH_ERROR, "no memory or descriptor for its results");
    return;
  }
  source_open(&session->source, session->setup.lane, session->attach_fd);
  if (session->is_reply) {
    struct reader *reader = session->attach_reader;
    session->attach_reader = NULL;
    sink_attach_here(session->sink, reader);
  }
  if (session->stopping) {
    source_end(&session->source, DETACH_STOPPED, "the pipeline ends");
  }
}

/* Two handles cannot poll one descriptor: with `reply` the results go through a duplicate. */
static struct reader *reply_reader(struct session *session, int fd) {
  struct failure failure;
  int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (duplicate < 0) {
    return NULL;
  }
  struct reader *reader = reader_new(session->sink, duplicate, &failure);
  if (!reader) {
    close(duplicate);
  }
  return reader;
}

void session_attach(struct session *session, int fd) {
  session->attach_fd = fd;
  if (session->is_reply) {
    session->attach_reader = reply_reader(session, fd);
  }
  post(session, &session->attach_order, run_attach);
}

static void run_hold(struct message *message) {
  struct session *session = ordered(message);
  atomic_store(&session->hold_posted, false);
  bool held = atomic_load(&session->hold_wanted);
  session->fill.held = held || session->stopping || session->road.device_dead;
  session->idle_owed = held;
  session->road.active = clock_now();
}

static void want_hold(struct session *session, bool hold) {
  atomic_store(&session->hold_wanted, hold);
  if (!atomic_exchange(&session->hold_posted, true)) {
    post(session, &session->hold_order, run_hold);
  }
}

void session_hold(struct session *session) { want_hold(session, true); }

void session_resume(struct session *session) { want_hold(session, false); }

static void run_stop(struct message *message) {
  struct session *session = ordered(message);
  session->stopping = true;
  session->fill.held = true;
  if (session->source.state == SOURCE_OPEN) {
    source_end(&session->source, DETACH_STOPPED, "the pipeline ends");
  }
  sink_discard(session->sink, FATE_SHUTDOWN, clock_now());
}

void session_stop(struct session *session) { post(session, &session->stop_order, run_stop); }

/* -- memory --------------------------------------------------------------------------------------------------------- */

/* Called by stream callbacks, from any thread. */
static void wake_from_device(void *context) {
  struct session *session = context;
  lane_wake(session->setup.lane, &session->runner);
}

static void wake_from_sink(void *context) {
  struct session *session = context;
  lane_schedule(&session->runner);
}

static bool make_memory(struct session *session, struct gpu_buffers *buffers, struct failure *failure) {
  const struct session_setup *setup = &session->setup;
  struct road *road = &session->road;
  char name[96];
  snprintf(name, sizeof name, "framed:%s.%u:in", setup->config->name, setup->index);
  if (!arena_make(&session->inputs, name, arena_bytes(road->input_bytes, road->ring.count), setup->device, failure)) {
    return false;
  }
  snprintf(name, sizeof name, "framed:%s.%u:out", setup->config->name, setup->index);
  if (!arena_make(&session->outputs, name, arena_bytes(road->output_bytes, road->ring.count), setup->device, failure)) {
    return false;
  }
  for (unsigned i = 0; i < road->ring.count; i++) {
    road->ring.slots[i].input = session->inputs.base + i * arena_stride(road->input_bytes);
    road->ring.slots[i].output = session->outputs.base + i * arena_stride(road->output_bytes);
    buffers[i] = (struct gpu_buffers){.input = road->ring.slots[i].input, .output = road->ring.slots[i].output};
  }
  if (road->overload == CONFIG_OVERLOAD_DROP_NEWEST) {
    session->discard = malloc(FILL_DISCARD);
    return session->discard ||
           failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "no memory for a session of '%s'", setup->config->name);
  }
  return true;
}

static bool make_program(struct session *session, const struct gpu_buffers *buffers, struct failure *failure) {
  const struct session_setup *setup = &session->setup;
  struct road *road = &session->road;
  struct gpu_error error = {0};
  road->program = gpu_program_new(setup->device, setup->chain, buffers, road->ring.count, wake_from_device, session, &error);
  if (!road->program || !gpu_program_warm_up(road->program, &error)) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, error.remedy, "pipeline '%s': %s", setup->config->name, error.text);
  }
  return true;
}

static bool make_sink(struct session *session, const struct frame_format *output, struct failure *failure) {
  const struct session_setup *setup = &session->setup;
  session->sink = setup->sink;
  session->is_reply = setup->sink == NULL;
  if (session->is_reply) {
    struct sink_setup own = {.config = setup->config, .lane = setup->lane, .control = setup->control, .output = output};
    session->sink = sink_new_reply(&own, on_client_gone, session, failure);
  }
  return session->sink != NULL;
}

static void set_up_road(struct session *session) {
  const struct config_pipeline *config = session->setup.config;
  struct road *road = &session->road;
  slot_ring_init(&road->ring, config->slots);
  road->account = &session->account;
  road->depth = road_depth(config->overload, config->slots, config->deadline_ns > 0);
  road->overload = config->overload;
  road->deadline_ns = config->deadline_ns;
  road->spin = config->completion == CONFIG_COMPLETION_SPIN;
  road->wake = wake_from_sink;
  road->session = session;
}

struct session *session_new(const struct session_setup *setup, struct failure *failure) {
  const struct frame_format *input = gpu_chain_input(setup->chain);
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  struct session *session = calloc(1, sizeof *session);
  if (!session) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "no memory for a session of '%s'", setup->config->name);
    return NULL;
  }
  session->setup = *setup;
  session->inputs = session->outputs = ARENA_NONE;
  session->runner = (struct runner){.turn = turn, .tick = tick};
  set_up_road(session);
  if (!format_bytes(input, &session->road.input_bytes) ||
      !format_bytes(gpu_chain_output(setup->chain), &session->road.output_bytes)) {
    failure_set(failure, EXIT_STATUS_CONFIG, NULL, "the frames of '%s' have no size", setup->config->name);
    return session_free(session);
  }
  if (!make_memory(session, buffers, failure) || !make_program(session, buffers, failure) ||
      !make_sink(session, gpu_chain_output(setup->chain), failure)) {
    return session_free(session);
  }
  fill_init(&session->fill, &session->road, setup->config->source.protocol, input, session->discard);
  session->source.runner = &session->runner;
  session->source.fill = &session->fill;
  session->source.closed = on_source_closed;
  session->source.timeout_ns = setup->config->source.timeout_ns;
  session->source.rate = setup->config->source.rate;
  session->source.loop = setup->config->source.loop;
  session->account.now.waiting = WAITING_FOR_PRODUCER;
  account_publish(&session->account);
  return session;
}

struct session *session_free(struct session *session) {
  if (!session) {
    return NULL;
  }
  assert(!session->runner.lane);
  gpu_program_free(session->road.program);
  if (session->is_reply) {
    sink_free(session->sink);
  }
  reader_free(session->attach_reader);
  arena_drop(&session->inputs);
  arena_drop(&session->outputs);
  free(session->discard);
  free(session);
  return NULL;
}

size_t session_pinned_bytes(const struct config_pipeline *config, const struct gpu_chain *chain, size_t input_bytes) {
  size_t output_bytes = 0;
  format_bytes(gpu_chain_output(chain), &output_bytes);
  return arena_bytes(input_bytes, config->slots) + arena_bytes(output_bytes, config->slots);
}

void session_read(const struct session *session, struct session_view *view) { account_read(&session->account, view); }

const struct histogram *session_histogram(const struct session *session, enum step step) {
  return &session->account.steps[step];
}
