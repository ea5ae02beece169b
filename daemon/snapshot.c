/*
 * What can be read of a pipeline: its sums over all sessions, and what happened lately. Each session's ledger is read
 * under its lane's sequence lock and balances, and so their sum does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/pipeline_state.h"

const char *const pipeline_state_names[] = {"starting", "running", "paused", "draining", "drained", "stopping", "stopped"};

/* Which of several sessions' answers stands for the pipeline: lower comes first. */
static const int precedence[] = {
    [WAITING_FOR_READER] = 0,  [WAITING_FOR_GPU] = 1,    [WAITING_FOR_RESUME] = 2,
    [WAITING_FOR_NOTHING] = 3, [WAITING_FOR_FRAMES] = 4, [WAITING_FOR_PRODUCER] = 5,
};

enum session_waiting pipeline_waiting(const struct pipeline *pipeline) {
  enum session_waiting result = WAITING_FOR_PRODUCER;
  for (unsigned i = 0; i < intake_seats(pipeline->intake); i++) {
    struct session_view view;
    session_read(intake_session(pipeline->intake, i), &view);
    if (precedence[view.waiting] < precedence[result]) {
      result = view.waiting;
    }
  }
  return result;
}

void pipeline_ledger(const struct pipeline *pipeline, struct ledger *ledger) {
  *ledger = (struct ledger){0};
  for (unsigned i = 0; pipeline->intake && i < intake_seats(pipeline->intake); i++) {
    struct session_view view;
    session_read(intake_session(pipeline->intake, i), &view);
    ledger_add(ledger, &view.ledger);
  }
}

static uint64_t dropped(const struct ledger *ledger) {
  uint64_t sum = 0;
  for (enum fate fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    sum += ledger->fates[fate];
  }
  return sum;
}

/* " (late 1, unread 2)", or nothing. */
static void append_fates(const struct ledger *ledger, char *text, size_t size) {
  const char *before = " (";
  size_t length = strlen(text);
  for (enum fate fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    if (ledger->fates[fate] > 0 && length < size) {
      length += (size_t)snprintf(text + length, size - length, "%s%s %" PRIu64, before, fate_names[fate], ledger->fates[fate]);
      before = ", ";
    }
  }
  if (before[0] == ',' && length < size) {
    snprintf(text + length, size - length, ")");
  }
}

const char *pipeline_account(const struct pipeline *pipeline, char text[PIPELINE_ACCOUNT]) {
  struct ledger ledger;
  pipeline_ledger(pipeline, &ledger);
  snprintf(text, PIPELINE_ACCOUNT, "in %" PRIu64 " = emitted %" PRIu64 " + in flight %" PRIu64 " + dropped %" PRIu64, ledger.in,
           ledger.fates[FATE_EMITTED], ledger.in_flight, dropped(&ledger));
  append_fates(&ledger, text, PIPELINE_ACCOUNT);
  return text;
}

bool pipeline_progressed_since(const struct pipeline *pipeline, int64_t then) {
  for (unsigned i = 0; i < intake_seats(pipeline->intake); i++) {
    struct session_view view;
    session_read(intake_session(pipeline->intake, i), &view);
    if (view.submitted != view.completed && view.last_completion < then) {
      return false;
    }
  }
  return true;
}

static void read_now(const struct pipeline *pipeline, struct reading *reading) {
  memset(reading, 0, sizeof *reading);
  reading->at = clock_now();
  for (unsigned i = 0; i < intake_seats(pipeline->intake); i++) {
    struct session_view view;
    session_read(intake_session(pipeline->intake, i), &view);
    ledger_add(&reading->ledger, &view.ledger);
    if (view.began != 0 && (reading->began == 0 || view.began < reading->began)) {
      reading->began = view.began;
    }
    for (enum step step = 0; step < STEP_COUNT; step++) {
      histogram_read(session_histogram(intake_session(pipeline->intake, i), step), &reading->steps[step]);
    }
  }
}

void pipeline_tick(struct pipeline *pipeline) {
  struct reading *reading = meter_next(pipeline->meter);
  read_now(pipeline, reading);
}

static void fill_formats(const struct pipeline *pipeline, struct pipeline_snapshot *snapshot) {
  const struct frame_format *output = gpu_chain_output(pipeline->chain);
  format_describe(&pipeline->input, snapshot->input);
  format_describe(output, snapshot->output);
  format_bytes(&pipeline->input, &snapshot->input_bytes);
  format_bytes(output, &snapshot->output_bytes);
}

static void fill_clients(const struct pipeline *pipeline, struct pipeline_snapshot *snapshot) {
  snapshot->clients = intake_seats(pipeline->intake);
  snapshot->sessions = intake_producers(pipeline->intake);
  snapshot->refused = intake_refused(pipeline->intake);
  snapshot->waiting = pipeline_waiting(pipeline);
  if (pipeline->outlet) {
    snapshot->readers = outlet_readers(pipeline->outlet);
    snapshot->missed = outlet_missed(pipeline->outlet);
    snapshot->refused += outlet_refused(pipeline->outlet);
  } else {
    snapshot->readers = snapshot->sessions; /* producers read their own replies */
  }
}

static void fill_figures(const struct pipeline *pipeline, struct pipeline_snapshot *snapshot, struct reading *now) {
  const struct reading *before = meter_oldest(pipeline->meter);
  struct meter_rates rates = meter_rates(now, before);
  snapshot->ledger = now->ledger;
  snapshot->seconds = rates.seconds;
  snapshot->fps = rates.fps;
  snapshot->in_bytes_per_s = rates.in_bytes_per_s;
  snapshot->out_bytes_per_s = rates.out_bytes_per_s;
  for (enum step step = 0; step < STEP_COUNT; step++) {
    snapshot->latency[step] = histogram_summarize(&now->steps[step], &before->steps[step]);
    snapshot->cumulative[step] = now->steps[step];
  }
}

void pipeline_snapshot(struct pipeline *pipeline, struct pipeline_snapshot *snapshot) {
  memset(snapshot, 0, sizeof *snapshot);
  snapshot->name = pipeline->config->name;
  snapshot->state = pipeline->state;
  fill_formats(pipeline, snapshot);
  fill_clients(pipeline, snapshot);
  read_now(pipeline, &pipeline->now);
  fill_figures(pipeline, snapshot, &pipeline->now);
}
