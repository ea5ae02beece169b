/*
 * A running pipeline: events of its sessions and its sink, orders, and their consequences. Only pipeline_move() changes its
 * state, by the table in states.c.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/frame/retry.h"
#include "daemon/measure/health.h"
#include "daemon/pipeline/private.h"

static void log_share(const struct pipeline *pipeline) {
  const char *name = pipeline->config->name;
  const struct gpu_share share = device_program_ready(session_stages(inputs_session(pipeline->inputs, 0))->program)->share;
  if (share.processors > 0) {
    log_event(LOG_MEASURED, name, "its kernels keep to %u of %u multiprocessors (share)", share.processors, share.of);
  } else {
    log_event(LOG_UNSHARED, name, "its kernels have the whole device, since there is no share of %u %%: %s",
              pipeline->config->share, share.why);
  }
}

/* Frames that take longer than gpu.timeout by nature have another limit. */
static void log_slowness(const struct pipeline *pipeline) {
  int64_t alone = session_stages(inputs_session(pipeline->inputs, 0))->costs.alone;
  int64_t timeout = pipeline->setup.gpu_timeout_ns, patience = health_patience(timeout, alone);
  if (alone > timeout) {
    log_event(LOG_MEASURED, pipeline->config->name,
              "a frame takes %.3g s, which is longer than gpu.timeout (%.3g s): one counts as hanging after %.3g s",
              (double)alone / (double)NS_PER_S, (double)timeout / (double)NS_PER_S, (double)patience / (double)NS_PER_S);
  }
}

/* Logs what the warm-up chose, if there was a choice. */
static void log_choice(const struct pipeline *pipeline) {
  const struct worker_ready *ready = device_program_ready(session_stages(inputs_session(pipeline->inputs, 0))->program);
  const struct gpu_measured measured = ready->measured;
  if (measured.plain > 0 && measured.graph > 0) {
    bool copied = measured.copied > 0 && measured.copied < measured.graph;
    int64_t replayed = copied ? measured.copied : measured.graph;
    log_event(LOG_MEASURED, pipeline->config->name, "a frame takes %.3g us when replayed from a graph, %.3g us without: %s",
              (double)replayed / 1e3, (double)measured.plain / 1e3, ready->graph ? "it is replayed" : "no graph");
  }
  if (measured.graph > 0 && measured.copied > 0) {
    log_event(LOG_MEASURED, pipeline->config->name,
              "a replayed frame takes %.3g us when kernels copy it, %.3g us otherwise: %s", (double)measured.copied / 1e3,
              (double)measured.graph / 1e3, ready->copies_by_kernel ? "they do" : "the copy engines do");
  }
  if (ready->timed_one_in > 1) {
    log_event(LOG_MEASURED, pipeline->config->name,
              "times on the device would make a frame take %.3g us, and not %.3g: one frame in %u has them",
              (double)measured.timed / 1e3, (double)measured.untimed / 1e3, ready->timed_one_in);
  }
  log_slowness(pipeline);
  if (pipeline->config->share > 0) {
    log_share(pipeline);
  }
}

/* Logs the frames that the last fault or takeover quarantined, and a failure of the pipeline. */
static void log_quarantined(struct pipeline *pipeline) {
  const char *name = pipeline->config->name;
  char sequence[24], epoch[24];
  snprintf(sequence, sizeof sequence, "%" PRIu64, pipeline->last_quarantined.number);
  snprintf(epoch, sizeof epoch, "%" PRIu64, pipeline->last_quarantined.epoch);
  if (pipeline->just_quarantined > 0) {
    const struct log_field fields[] = {{"SEQUENCE", sequence}, {"EPOCH", epoch}, {NULL, NULL}};
    log_event_with(LOG_CONDEMNED, name, fields,
                   "frame %s of epoch %s made its worker fail %d times while it ran alone: it is dropped as gpu_fault",
                   sequence, epoch, RETRY_LIMIT);
    trouble_note(&pipeline->trouble, clock_now(), "look at what its stages make of such a frame",
                 "frame %s of epoch %s made its worker fail %d times while it ran alone", sequence, epoch, RETRY_LIMIT);
  }
  if (pipeline->state == PIPELINE_FAILED && pipeline->just_quarantined > 0) {
    trouble_note(&pipeline->trouble, clock_now(),
                 "correct its stages and reload, or let it take frames again by framectl resume",
                 "%d of its frames made workers fail within a minute: it takes no more", PIPELINE_QUARANTINE_LIMIT);
    log_event(
        LOG_PIPELINE_FAILED, name,
        "%d of its frames made workers fail within a minute: it takes no more; correct its stages and reload, or resume it",
        PIPELINE_QUARANTINE_LIMIT);
  }
}

void pipeline_finish_rewind(struct pipeline *pipeline) {
  bool is_too_much = pipeline_has_too_many_quarantined(pipeline);
  if (is_too_much && pipeline_may_move(pipeline->state, HAPPENS_FAIL) && pipeline_move(pipeline, HAPPENS_FAIL)) {
    inputs_hold(pipeline->inputs, false);
    pipeline_answer_pending(pipeline, "has failed");
  }
  log_quarantined(pipeline);
  pipeline->just_quarantined = 0;
}

/* Without its socket no new client can connect. This is logged and is no failure, so that connected clients can stay. */
static void begin_at_socket(const struct pipeline *pipeline, struct listener *listener,
                            const struct config_socket_access *access, struct trouble *trouble) {
  struct failure failure;
  if (listener && !listener_begin(listener, access, &failure)) {
    log_event(LOG_FAILED, pipeline->config->name, "the socket '%s' was removed and cannot be created again: %s%s%s",
              listener_path(listener), failure.text, failure.remedy[0] ? "; " : "", failure.remedy);
    trouble_note(trouble, clock_now(), failure.remedy,
                 "no client can connect: the socket '%s' was removed and cannot be created again: %s", listener_path(listener),
                 failure.text);
  }
}

/* Socket files may also be missing because the previous process was killed while a reload removed this pipeline. */
static void begin_at_sockets(const struct pipeline *pipeline) {
  begin_at_socket(pipeline, pipeline_source_listener(pipeline), &pipeline->config->source.access, &pipeline->inputs->trouble);
  if (pipeline->outputs) {
    begin_at_socket(pipeline, pipeline_sink_listener(pipeline), &pipeline->config->sink.access,
                    outputs_cause(pipeline->outputs, OUTPUT_ENDS));
  }
}

/* -- life, on the control loop ----------------------------------------------------------------------------------- */

static void begin_recording(struct pipeline *pipeline) {
  pipeline->recording = true;
  recorder_start(pipeline->recorder, outputs_sink(pipeline->record));
}

void pipeline_on_record_opened(void *context) { begin_recording(context); }

/* Until the file of a recording can be opened, frames continue, and the recorder keeps what its memory holds. */
static bool start_record(struct pipeline *pipeline, struct failure *failure) {
  if (!pipeline->recorder || pipeline->record_started) {
    return true;
  }
  pipeline->record_started = outputs_start(pipeline->record, failure);
  if (pipeline->record_started && !outputs_is_late(pipeline->record)) {
    begin_recording(pipeline);
  }
  return pipeline->record_started;
}

static bool start_ends(struct pipeline *pipeline, struct failure *failure) {
  if (pipeline->continues && pipeline->continues_as != PIPELINE_RUNNING) {
    inputs_start_held(pipeline->inputs);
  } else if (!pipeline->continues && pipeline->wait.then != PIPELINE_RUNNING) {
    inputs_hold(pipeline->inputs, false);
  }
  if (!pipeline->outputs_started) { /* nobody accepts connections there yet */
    begin_at_sockets(pipeline);
  }
  pipeline->outputs_started = pipeline->outputs_started || !pipeline->outputs || outputs_start(pipeline->outputs, failure);
  return pipeline->outputs_started && start_record(pipeline, failure) && inputs_start(pipeline->inputs, failure);
}

static void begin_watching(struct pipeline *pipeline) {
  pipeline_watch_begin(pipeline);
  pipeline_tick(pipeline);
}

bool pipeline_start(struct pipeline *pipeline, struct failure *failure) {
  if (pipeline->state == PIPELINE_WAITING) {
    begin_watching(pipeline);
    return true;
  }
  if (!start_ends(pipeline, failure)) {
    trouble_note(&pipeline->trouble, clock_now(), failure->remedy, "it cannot start: %s", failure->text);
    return false;
  }
  if (pipeline->state == PIPELINE_STARTING && !pipeline->continues) {
    trouble_clear(&pipeline->trouble);
  }
  pipeline_move(pipeline, pipeline->continues ? HAPPENS_CONTINUE : HAPPENS_START);
  if (!pipeline->continues) {
    if (pipeline->wait.then != PIPELINE_RUNNING) {
      pipeline_move(pipeline, pipeline->wait.then == PIPELINE_PAUSED ? HAPPENS_PAUSE : HAPPENS_DRAIN);
    }
    log_choice(pipeline);
  } else {
    log_quarantined(pipeline);
  }
  begin_watching(pipeline);
  return true;
}

void pipeline_answer_pending(struct pipeline *pipeline, const char *why) {
  server_answer *answer;
  void *context;
  while (pending_take(&pipeline->pauses, &answer, &context)) {
    answer_error(answer, context, 409, NULL, "pipeline '%s' %s before it was paused", pipeline->config->name, why);
  }
  while (pending_take(&pipeline->drains, &answer, &context)) {
    answer_error(answer, context, 409, NULL, "pipeline '%s' %s before it was drained", pipeline->config->name, why);
  }
}

static void on_idle(struct pipeline *pipeline);
static void on_stopped(struct pipeline *pipeline);

static void run_empty(struct message *message) {
  struct pipeline *pipeline = (struct pipeline *)((char *)message - offsetof(struct pipeline, empty));
  pipeline->empty_posted = false;
  if (pipeline->cut) {
    on_stopped(pipeline);
  } else {
    on_idle(pipeline);
  }
}

/* Reports by a message, as sessions do, so that the caller is not in the middle of quiescing or stopping then. */
static void report_if_empty(struct pipeline *pipeline) {
  if (inputs_seats(pipeline->inputs) == 0 && !pipeline->empty_posted) {
    pipeline->empty_posted = true;
    pipeline->empty.run = run_empty;
    mailbox_post(pipeline->setup.control, &pipeline->empty);
  }
}

void pipeline_quiesce(struct pipeline *pipeline, bool for_good) {
  if (pipeline->cut) {
    return;
  }
  pipeline_move(pipeline, HAPPENS_QUIESCE);
  pipeline->for_good = for_good;
  pipeline_answer_pending(pipeline, for_good ? "was stopped" : "was held for a reload or a restart");
  if (for_good && pipeline_sink_has_ended(pipeline)) {
    pipeline_stop(pipeline);
    return;
  }
  if (for_good) {
    inputs_close(pipeline->inputs);
  } else {
    inputs_suspend(pipeline->inputs);
  }
  inputs_hold(pipeline->inputs, true);
  report_if_empty(pipeline);
}

void pipeline_quiesce_to_leave(struct pipeline *pipeline) {
  inputs_leave_partial(pipeline->inputs);
  pipeline_quiesce(pipeline, false);
}

bool pipeline_is_quiet(const struct pipeline *pipeline) {
  return pipeline->state == PIPELINE_STOPPING && inputs_idle(pipeline->inputs);
}

void pipeline_unquiesce(struct pipeline *pipeline) {
  if (pipeline->cut) { /* a stop came meanwhile */
    return;
  }
  pipeline_move(pipeline, HAPPENS_UNQUIESCE);
  if (pipeline->state == PIPELINE_DRAINING && inputs_idle(pipeline->inputs)) {
    pipeline_move(pipeline, HAPPENS_IDLE);
  } else if (pipeline->state == PIPELINE_DRAINING) {
    inputs_hold(pipeline->inputs, false); /* only an end waits for slow readers */
  }
  if (pipeline->state == PIPELINE_RUNNING || pipeline->state == PIPELINE_STARTING) {
    inputs_resume(pipeline->inputs);
  }
  inputs_unsuspend(pipeline->inputs);
}

void pipeline_stop(struct pipeline *pipeline) {
  if (pipeline->cut) {
    return;
  }
  pipeline->cut = true;
  pipeline_move(pipeline, HAPPENS_STOP);
  pipeline_answer_pending(pipeline, "was stopped");
  inputs_close(pipeline->inputs);
  inputs_stop(pipeline->inputs);
  report_if_empty(pipeline);
}

/* -- events ------------------------------------------------------------------------------------------------------ */

static void pipeline_notify(struct pipeline *pipeline, enum pipeline_event event) {
  pipeline->setup.listener(pipeline->setup.context, pipeline, event);
}

json_t *pipeline_state_document(const struct pipeline *pipeline) {
  return json_pack("{s:b, s:s, s:s}", "ok", 1, "pipeline", pipeline->config->name, "state",
                   pipeline_state_names[pipeline_shown_state(pipeline)]);
}

static void grant(const struct pipeline *pipeline, struct pending_requests *requests) {
  server_answer *answer;
  void *context;
  while (pending_take(requests, &answer, &context)) {
    answer(context, 200, pipeline_state_document(pipeline));
  }
}

void pipeline_on_held(struct pipeline *pipeline) {
  if (inputs_held(pipeline->inputs)) {
    grant(pipeline, &pipeline->pauses);
  }
}

static void on_idle(struct pipeline *pipeline) {
  if (!inputs_idle(pipeline->inputs)) {
    return;
  }
  if (pipeline_move(pipeline, HAPPENS_IDLE)) {
    log_event(LOG_PAUSED, pipeline->config->name, "drained: nothing is in flight");
    grant(pipeline, &pipeline->drains);
  } else if (pipeline->state == PIPELINE_FAILED) {
    grant(pipeline, &pipeline->drains);
  } else if (pipeline->state == PIPELINE_STOPPING && pipeline->for_good) {
    pipeline_stop(pipeline);
  } else if (pipeline->state == PIPELINE_STOPPING && !pipeline->cut) {
    pipeline_notify(pipeline, PIPELINE_QUIET);
  }
}

void pipeline_log_account(struct pipeline *pipeline) {
  char text[PIPELINE_ACCOUNT];
  if (!pipeline->accounted) {
    pipeline->accounted = true;
    log_event(LOG_STOPPED, pipeline->config->name, "stopped: %s", pipeline_account(pipeline, text));
  }
}

/* Logs the account here, because after a reload nobody can query it any more. */
static void become_stopped(struct pipeline *pipeline) {
  pipeline_move(pipeline, HAPPENS_END);
  pipeline_log_account(pipeline);
  pipeline_notify(pipeline, PIPELINE_GONE);
}

static void stop_outputs(struct pipeline *pipeline) {
  if (pipeline->outputs) {
    outputs_close(pipeline->outputs);
    outputs_stop(pipeline->outputs);
  } else {
    become_stopped(pipeline);
  }
}

/* The recording ends first; it has all frames by now. */
static void on_stopped(struct pipeline *pipeline) {
  if (!inputs_stopped(pipeline->inputs) || pipeline->record_stopping) {
    return;
  }
  pipeline->record_stopping = pipeline->record_started;
  if (pipeline->recording) {
    recorder_stop(pipeline->recorder);
  } else if (pipeline->record_started) {
    pipeline_on_record_stopped(pipeline);
  } else {
    stop_outputs(pipeline);
  }
}

void pipeline_on_record_stopped(void *context) {
  struct pipeline *pipeline = context;
  outputs_close(pipeline->record);
  outputs_stop(pipeline->record);
}

void pipeline_on_record_event(void *context, const struct sink_event *event) {
  struct pipeline *pipeline = context;
  outputs_on_event(pipeline->record, event);
  if (event->kind == SINK_STOPPED) {
    stop_outputs(pipeline);
  }
}

static void on_ended(struct pipeline *pipeline) {
  if (pipeline->state != PIPELINE_STOPPING) {
    pipeline_notify(pipeline, PIPELINE_ENDED);
  } else if (pipeline->for_good && pipeline_sink_has_ended(pipeline)) {
    pipeline_stop(pipeline); /* its sink has ended, so nobody will take the frames in flight */
  }
}

void pipeline_on_session_event(void *context, const struct session_event *event) {
  struct pipeline *pipeline = context;
  bool had_ended = pipeline_has_ended(pipeline);
  inputs_on_event(pipeline->inputs, event);
  switch (event->kind) {
  case SESSION_DETACHED:
    if (!had_ended && pipeline_has_ended(pipeline)) {
      on_ended(pipeline);
    }
    break;
  case SESSION_HELD:
    pipeline_on_held(pipeline);
    break;
  case SESSION_IDLE:
    on_idle(pipeline);
    break;
  case SESSION_STOPPED:
    on_stopped(pipeline);
    break;
  case SESSION_NOT_READ:
  case SESSION_FOREIGN:
  case SESSION_REFUSED:
    break;
  case SESSION_CHANGED:
    if (inputs_changed(pipeline->inputs)) {
      pipeline_on_changed(pipeline);
      pipeline_forget_readings(pipeline); /* they belong to the old stages */
      pipeline_notify(pipeline, PIPELINE_RESTAGED);
    }
    break;
  }
}

void pipeline_on_sink_event(void *context, const struct sink_event *event) {
  struct pipeline *pipeline = context;
  bool had_ended = pipeline_sink_has_ended(pipeline);
  outputs_on_event(pipeline->outputs, event);
  if (event->kind == SINK_STOPPED) {
    become_stopped(pipeline);
  } else if (!had_ended && pipeline_sink_has_ended(pipeline)) {
    on_ended(pipeline);
  }
}

void pipeline_abandon(struct pipeline *pipeline) {
  inputs_close(pipeline->inputs);
  if (pipeline->outputs) {
    outputs_close(pipeline->outputs);
  }
  if (pipeline->record) {
    outputs_close(pipeline->record);
  }
}
