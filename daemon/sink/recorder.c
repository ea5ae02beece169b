#include "daemon/sink/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/sink/results.h"

#define FLUSH_TIME (200 * NS_PER_MS) /* time limit while all lanes are parked */

enum { LEAST_CELLS = 4, SLOTS = 4 };

struct recorder {
  struct runner runner; /* must be first */
  struct recorder_setup setup;
  struct frame_format output; /* a copy of the setup's */
  struct tap tap;
  struct sink *starts_with, *sink; /* the sink it was given, and the sink its lane uses */
  struct flow flow;
  struct account account;
  /* The ring: frames first to next - 1, counted since the start. The sink was offered those before `offered`. */
  unsigned char *memory;
  struct frame *frames;
  uint64_t cells, first, offered, next;
  size_t frame_bytes;
  int64_t until; /* frames that came until then are kept; 0: none yet */
  bool open;     /* an event is being recorded */
  bool stopping;
  _Atomic uint64_t missed;
  atomic_bool event_posted;
  struct message start_message, event_message, stop_message, stopped_message;
};

/* -- making it --------------------------------------------------------------------------------------------------------- */

static void recorder_on_frame(struct tap *tap, const struct slot *slot, int64_t now);
static void recorder_on_result(struct tap *tap, const struct slot *slot, int64_t now);
static bool recorder_turn(struct runner *runner);
static void recorder_tick(struct runner *runner, int64_t now);

static void wake_recorder(void *context) { lane_schedule(&((struct recorder *)context)->runner); }

static void set_up_recorder(struct recorder *recorder, const struct recorder_setup *setup) {
  struct flow *flow = &recorder->flow;
  recorder->setup = *setup;
  recorder->output = *setup->output;
  recorder->runner = (struct runner){.turn = recorder_turn, .tick = recorder_tick};
  recorder->tap = (struct tap){.on_frame = recorder_on_frame, .on_result = recorder_on_result};
  recorder->until = setup->config->record.when == CONFIG_RECORD_ALWAYS ? INT64_MAX : 0;
  slot_ring_init(&flow->ring, SLOTS);
  flow->account = &recorder->account;
  flow->wake = wake_recorder;
  flow->session = recorder;
}

size_t recorder_bytes(const struct config_pipeline *config, size_t frame_bytes) {
  uint64_t wanted = (uint64_t)config->record.memory / frame_bytes;
  size_t bytes;
  bool fits = !__builtin_mul_overflow(wanted > LEAST_CELLS ? wanted : LEAST_CELLS, frame_bytes, &bytes);
  return config->record.file ? (fits ? bytes : SIZE_MAX) : 0;
}

/* Touches the whole ring, so that no frame causes a page fault. */
static bool take_cells(struct recorder *recorder) {
  size_t bytes = recorder_bytes(recorder->setup.config, recorder->frame_bytes);
  recorder->cells = bytes / recorder->frame_bytes;
  if (recorder->cells == 0) {
    return false;
  }
  recorder->frames = calloc(recorder->cells, sizeof *recorder->frames);
  recorder->memory = malloc(bytes);
  if (recorder->memory) {
    memset(recorder->memory, 1, bytes);
  }
  return recorder->frames && recorder->memory;
}

struct recorder *recorder_new(const struct recorder_setup *setup, struct failure *failure) {
  struct recorder *recorder = calloc(1, sizeof *recorder);
  if (!recorder) {
    failure_set_memory(failure, "no memory to record pipeline '%s'", setup->config->name);
    return NULL;
  }
  set_up_recorder(recorder, setup);
  if (!format_bytes(setup->input, &recorder->frame_bytes) || !take_cells(recorder)) {
    failure_set_system(failure, ENOMEM, "give `record` less memory, or free some",
                       "no memory for the frames that pipeline '%s' records", setup->config->name);
    return recorder_free(recorder);
  }
  return recorder;
}

struct recorder *recorder_free(struct recorder *recorder) {
  if (recorder) {
    free(recorder->frames);
    free(recorder->memory);
  }
  free(recorder);
  return NULL;
}

struct tap *recorder_tap(struct recorder *recorder) {
  return recorder ? &recorder->tap : NULL;
}

static uint64_t recorder_missed(const struct recorder *recorder) {
  return atomic_load_explicit(&recorder->missed, memory_order_relaxed);
}

void recorder_read(const struct recorder *recorder, struct recorder_view *view) {
  struct session_view account;
  account_read(&recorder->account, &account);
  *view = (struct recorder_view){.missed = recorder_missed(recorder),
                                 .emitted = account.ledger.fates[FATE_EMITTED],
                                 .lost = account.ledger.fates[FATE_SINK_ERROR]};
}

/* -- offering frames to the sink --------------------------------------------------------------------------------------- */

static const struct frame *oldest_left(const struct recorder *recorder) {
  return recorder->offered < recorder->next ? &recorder->frames[recorder->offered % recorder->cells] : NULL;
}

static bool is_wanted(const struct recorder *recorder) {
  const struct frame *frame = oldest_left(recorder);
  return frame && frame->complete <= recorder->until;
}

/* The sink returns slots in the order in which it got them. */
static void take_free(struct recorder *recorder) {
  recorder->first = recorder->offered - slot_count(&recorder->flow.ring, SLOT_EMITTING);
}

/* Moves the slot through all states, as if the frame had been on a device. */
static void offer_one(struct recorder *recorder, struct slot *slot) {
  static const enum slot_state states[] = {SLOT_FILLING, SLOT_READY, SLOT_RUNNING, SLOT_DONE, SLOT_EMITTING};
  uint64_t cell = recorder->offered++ % recorder->cells;
  slot->frame = recorder->frames[cell];
  slot->frame.open = slot->frame.suspect = false; /* the frame is open in the account of its session */
  slot->output = recorder->memory + cell * recorder->frame_bytes;
  account_open(&recorder->account, &slot->frame);
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    slot_move(&recorder->flow.ring, slot, states[i]);
  }
  sink_offer(recorder->sink, &recorder->flow, slot);
}

static bool offer_wanted(struct recorder *recorder, int64_t now) {
  struct slot *slot;
  bool offered = false;
  while (recorder->sink && is_wanted(recorder) && (slot = slot_oldest(&recorder->flow.ring, SLOT_FREE))) {
    offer_one(recorder, slot);
    offered = true;
  }
  if (offered && sink_turn(recorder->sink, now)) {
    lane_schedule(&recorder->sink->runner);
  }
  take_free(recorder);
  return offered;
}

/* -- incoming frames --------------------------------------------------------------------------------------------------- */

/* In a full ring the new frame replaces the oldest one, unless that is to be kept. */
static void recorder_on_frame(struct tap *tap, const struct slot *slot, int64_t now) {
  struct recorder *recorder = (struct recorder *)((char *)tap - offsetof(struct recorder, tap));
  take_free(recorder);
  if (recorder->next - recorder->first == recorder->cells) {
    if (recorder->first < recorder->offered || is_wanted(recorder)) {
      if (slot->frame.complete <= recorder->until) {
        atomic_store_explicit(&recorder->missed, recorder_missed(recorder) + 1, memory_order_relaxed);
      }
      return;
    }
    recorder->first = ++recorder->offered;
  }
  uint64_t cell = recorder->next % recorder->cells;
  memcpy(recorder->memory + cell * recorder->frame_bytes, slot->input, recorder->frame_bytes);
  recorder->frames[cell] = slot->frame;
  recorder->next++;
  offer_wanted(recorder, now);
}

static void recorder_see(struct recorder *recorder, int64_t now) {
  if (recorder->setup.config->record.when == CONFIG_RECORD_ALWAYS || !recorder->sink) {
    return;
  }
  if (!recorder->open) {
    int64_t oldest = now - recorder->setup.config->record.before_ns;
    while (oldest_left(recorder) && oldest_left(recorder)->complete < oldest) {
      recorder->offered++; /* came too long before the event */
    }
    recorder->open = true;
    sink_end_segment(recorder->sink);
  }
  recorder->until = now + recorder->setup.config->record.after_ns;
  offer_wanted(recorder, now);
}

static bool has_boxes(const struct frame_format *output, const float *values) {
  return output->meaning == MEANING_BOXES ? values[4] != 0 : output->meaning == MEANING_MOTION && values[0] > 0;
}

static void recorder_on_result(struct tap *tap, const struct slot *slot, int64_t now) {
  struct recorder *recorder = (struct recorder *)((char *)tap - offsetof(struct recorder, tap));
  if (recorder->setup.config->record.when == CONFIG_RECORD_BOXES &&
      has_boxes(&recorder->output, (const float *)(const void *)slot->output)) {
    recorder_see(recorder, now);
  }
}

/* -- on its lane ------------------------------------------------------------------------------------------------------- */

static void report_stopped(struct message *message) {
  struct recorder *recorder = (struct recorder *)((char *)message - offsetof(struct recorder, stopped_message));
  recorder->setup.stopped(recorder->setup.context);
}

static bool is_written(const struct recorder *recorder) {
  return !is_wanted(recorder) && slot_count(&recorder->flow.ring, SLOT_EMITTING) == 0;
}

static bool recorder_turn(struct runner *runner) {
  struct recorder *recorder = (struct recorder *)runner;
  offer_wanted(recorder, clock_now());
  if (recorder->stopping && is_written(recorder)) {
    recorder->stopping = false;
    lane_leave(&recorder->runner);
    recorder->stopped_message.run = report_stopped;
    mailbox_post(recorder->setup.control, &recorder->stopped_message);
  }
  return false;
}

/* After the event ends its segment, so that no other event gets into it. */
static void recorder_tick(struct runner *runner, int64_t now) {
  struct recorder *recorder = (struct recorder *)runner;
  if (recorder->open && now > recorder->until && is_written(recorder)) {
    recorder->open = false;
    sink_end_segment(recorder->sink);
  }
  account_publish(&recorder->account);
}

static void run_start(struct message *message) {
  struct recorder *recorder = (struct recorder *)((char *)message - offsetof(struct recorder, start_message));
  recorder->sink = recorder->starts_with;
  lane_join(recorder->setup.lane, &recorder->runner);
  lane_schedule(&recorder->runner);
}

void recorder_start(struct recorder *recorder, struct sink *sink) {
  recorder->starts_with = sink;
  recorder->start_message.run = run_start;
  lane_post(recorder->setup.lane, &recorder->start_message);
}

static void run_event(struct message *message) {
  struct recorder *recorder = (struct recorder *)((char *)message - offsetof(struct recorder, event_message));
  atomic_store(&recorder->event_posted, false);
  recorder_see(recorder, clock_now());
}

void recorder_note_event(struct recorder *recorder) {
  if (!atomic_exchange(&recorder->event_posted, true)) {
    recorder->event_message.run = run_event;
    lane_post(recorder->setup.lane, &recorder->event_message);
  }
}

uint64_t recorder_flush(struct recorder *recorder) {
  int64_t end = clock_now() + FLUSH_TIME;
  struct slot *slot;
  while (recorder->sink && sink_flush_segment(recorder->sink) && clock_now() < end && is_wanted(recorder)) {
    while (is_wanted(recorder) && (slot = slot_oldest(&recorder->flow.ring, SLOT_FREE))) {
      offer_one(recorder, slot);
    }
  }
  /* Results that the full disk refused and that were not reported yet would be lost with the sink. */
  uint64_t left = slot_count(&recorder->flow.ring, SLOT_EMITTING) + (recorder->sink ? recorder->sink->file.lost : 0);
  for (uint64_t at = recorder->offered; at < recorder->next; at++) {
    left += recorder->frames[at % recorder->cells].complete <= recorder->until;
  }
  return left;
}

static void run_stop(struct message *message) {
  struct recorder *recorder = (struct recorder *)((char *)message - offsetof(struct recorder, stop_message));
  recorder->stopping = true;
  lane_schedule(&recorder->runner);
}

void recorder_stop(struct recorder *recorder) {
  recorder->stop_message.run = run_stop;
  lane_post(recorder->setup.lane, &recorder->stop_message);
}
