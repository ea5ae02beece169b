/*
 * Commands from outside: pause, resume, drain, and record an event. Pause and drain are answered later, when run.c reaches the
 * state or when their time is over.
 */
#include <inttypes.h>

#include "daemon/base/log.h"
#include "daemon/pipeline/private.h"

#define PAUSE_LIMIT (2 * NS_PER_S) /* many times the longest turn of a lane */

const char *const pipeline_command_names[] = {[PIPELINE_COMMAND_PAUSE] = "pause",
                                              [PIPELINE_COMMAND_RESUME] = "resume",
                                              [PIPELINE_COMMAND_DRAIN] = "drain",
                                              [PIPELINE_COMMAND_RECORD] = "record"};

static const char *const waiting_texts[] = {
    [WAITING_FOR_NOTHING] = "",
    [WAITING_FOR_PRODUCER] = "",
    [WAITING_FOR_FRAMES] = ": it waits for the rest of a frame",
    [WAITING_FOR_GPU] = ": it waits for the GPU",
    [WAITING_FOR_READER] = ": it waits for a reader to take its results",
    [WAITING_FOR_RESUME] = "",
};

/* Answered when the lanes know of the pause, so that no frame is accepted after the answer. */
static void pause_frames(struct pipeline *pipeline, server_answer *answer, void *context) {
  if (!pending_add(&pipeline->pauses, PAUSE_LIMIT, answer, context)) {
    return;
  }
  if (pipeline_move(pipeline, HAPPENS_PAUSE)) {
    inputs_hold(pipeline->inputs, false);
    log_event(LOG_PAUSED, pipeline->config->name, "paused: no frames are taken until it is resumed");
  }
  pipeline_on_held(pipeline);
}

static void resume_frames(struct pipeline *pipeline) {
  if (pipeline_move(pipeline, HAPPENS_RESUME)) {
    inputs_resume(pipeline->inputs);
    trouble_clear(&pipeline->trouble);
    log_event(LOG_RESUMED, pipeline->config->name, "resumed");
    pipeline_answer_pending(pipeline, "was resumed");
  }
}

static void drain_frames(struct pipeline *pipeline, int64_t limit_ns, server_answer *answer, void *context) {
  if (!pending_add(&pipeline->drains, limit_ns, answer, context) || pipeline->state == PIPELINE_DRAINING) {
    return;
  }
  if (pipeline_move(pipeline, HAPPENS_DRAIN)) {
    log_event(LOG_PAUSED, pipeline->config->name, "draining: no frames are taken until it is resumed");
  }
  inputs_hold(pipeline->inputs, false);
}

static void record_event(const struct pipeline *pipeline, server_answer *answer, void *context) {
  if (!pipeline->recorder || pipeline->config->record.when == CONFIG_RECORD_ALWAYS) {
    answer_error(answer, context, 409, "write record: {file: ..., when: event} in the pipeline",
                 pipeline->recorder ? "pipeline '%s' is always recorded" : "pipeline '%s' is not recorded",
                 pipeline->config->name);
    return;
  }
  recorder_note_event(pipeline->recorder);
  answer(context, 200, pipeline_state_document(pipeline));
}

void pipeline_on_pause_expired(void *owner, server_answer *answer, void *context) {
  const struct pipeline *pipeline = owner;
  answer_error(answer, context, 504, "ask again, and framectl health whether a lane or a device hangs",
               "pipeline '%s' may still take frames: its lane has not processed the pause yet", pipeline->config->name);
}

void pipeline_on_drain_expired(void *owner, server_answer *answer, void *context) {
  struct pipeline *pipeline = owner;
  struct ledger ledger;
  pipeline_ledger(pipeline, &ledger);
  const char *reason = waiting_texts[pipeline_waiting(pipeline)];
  answer_error(answer, context, 504, "it continues to drain; ask again, or resume it",
               "pipeline '%s' still has %" PRIu64 " frame%s in flight%s", pipeline->config->name, ledger.in_flight,
               ledger.in_flight == 1 ? "" : "s", reason);
}

/* It accepts no frames, and starts in the state of the last command. */
static void command_waiting(struct pipeline *pipeline, enum pipeline_command command, server_answer *answer, void *context) {
  static const enum pipeline_state states[] = {[PIPELINE_COMMAND_PAUSE] = PIPELINE_PAUSED,
                                               [PIPELINE_COMMAND_RESUME] = PIPELINE_RUNNING,
                                               [PIPELINE_COMMAND_DRAIN] = PIPELINE_DRAINED};
  pipeline->wait.then = states[command];
  pipeline->wait.next = command == PIPELINE_COMMAND_RESUME ? 0 : pipeline->wait.next;
  log_event(command == PIPELINE_COMMAND_RESUME ? LOG_RESUMED : LOG_PAUSED, pipeline->config->name,
            "it waits, and will then be %s", pipeline_state_names[pipeline->wait.then]);
  answer(context, 200, pipeline_state_document(pipeline));
}

void pipeline_command(struct pipeline *pipeline, enum pipeline_command command, int64_t limit_ns, server_answer *answer,
                      void *context) {
  if (pipeline->state == PIPELINE_WAITING && command != PIPELINE_COMMAND_RECORD) {
    command_waiting(pipeline, command, answer, context);
    return;
  }
  if (pipeline->state == PIPELINE_WAITING || pipeline->state == PIPELINE_STARTING || pipeline->state >= PIPELINE_STOPPING) {
    answer_error(answer, context, 409, "try again when it is running", "pipeline '%s' is %s", pipeline->config->name,
                 pipeline_state_names[pipeline->state]);
    return;
  }
  switch (command) {
  case PIPELINE_COMMAND_PAUSE:
    pause_frames(pipeline, answer, context);
    return;
  case PIPELINE_COMMAND_RECORD:
    record_event(pipeline, answer, context);
    return;
  case PIPELINE_COMMAND_RESUME:
    resume_frames(pipeline);
    break;
  case PIPELINE_COMMAND_DRAIN:
    if (pipeline->state != PIPELINE_DRAINED) {
      drain_frames(pipeline, limit_ns, answer, context);
      return;
    }
    break;
  }
  answer(context, 200, pipeline_state_document(pipeline));
}
