/*
 * What the server takes at its start, in the order in which things may fail, and gives back at its end. The status sockets show
 * a second daemon before any memory is taken; the devices come before the lanes; the pipelines are prepared on a worker thread,
 * so that signals are heard; and only when all of them run does anybody get an answer.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/base/systemd.h"
#include "daemon/camera/camera.h"
#include "daemon/device/models.h"
#include "daemon/server/config_files.h"
#include "daemon/server/private.h"
#include "daemon/state/exec.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/state.h"
#include "daemon/status/pictures.h"
#include "daemon/status/tracer.h"

#define MOST_FED (90 * NS_PER_S)

static bool startup_out_of_memory(struct failure *failure) { return failure_set_memory(failure, "not enough memory to start"); }

static bool open_status_listeners(struct server *server, struct failure *failure) {
  if (server->left && !server_take(server)) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "what was handed over of the daemon makes no sense");
  }
  if (!status_socket_open(server, failure)) {
    return false;
  }
  http_address_open(server); /* before descriptors that the service manager kept are let go of */
  return true;
}

static bool make_pipelines(struct server *server, struct failure *failure) {
  const struct config *config = server->config;
  const struct pipeline_setup setup = server_pipeline_setup(server);
  server->pipelines = calloc(config->pipeline_count + 1, sizeof(struct pipeline *));
  if (!server->pipelines) {
    return startup_out_of_memory(failure);
  }
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    server->pipelines[i] = pipeline_new(&setup, &config->pipelines[i], failure);
    if (!server->pipelines[i]) {
      return false;
    }
    server->pipeline_count++;
  }
  return true;
}

/* -- pipelines, on a worker thread ------------------------------------------------------------------------------- */

struct preparation {
  struct server *server;
  bool done;
  struct failure failure;
  struct loop_timer *feed; /* NULL: no watchdog has to be fed */
  int64_t began;
};

/* The watchdog goes on while one image of the process follows another, and the new image makes everything anew. It is fed for
 * as long as systemd gives a start of the unit by default, and then decides. */
static void feed(void *context) {
  const struct preparation *preparation = context;
  if (clock_now() - preparation->began < MOST_FED) {
    systemd_watchdog();
  }
}

/* Without memory for the timer the watchdog may end a long start. */
static void start_feeding(struct preparation *preparation) {
  uint64_t quarter = (uint64_t)(systemd_watchdog_interval() / 4 / NS_PER_MS);
  preparation->began = clock_now();
  preparation->feed = systemd_watches() ? loop_timer_new(&preparation->server->loop, feed, preparation) : NULL;
  if (preparation->feed) {
    loop_timer_start(preparation->feed, 0, quarter > 0 ? quarter : 1);
  }
}

/* What the machine refuses one pipeline is no matter of the others. One that was handed over has connections and cannot wait.
 */
static bool prepare_one(const struct server *server, unsigned index, struct failure *failure) {
  struct pipeline *pipeline = server->pipelines[index];
  const struct pipeline_inheritance inheritance = {.left = server->left ? server->left->state->pipeline[index].address : NULL};
  return waiting_prepare(pipeline, &inheritance, server->pipeline_count, failure) ||
         (failure->passes && !pipeline_continues(pipeline) && pipeline_wait(pipeline, failure));
}

static void prepare(void *context) {
  struct preparation *preparation = context;
  struct server *server = preparation->server;
  preparation->done = true;
  for (unsigned i = 0; i < server->pipeline_count && preparation->done; i++) {
    preparation->done = prepare_one(server, i, &preparation->failure);
  }
  preparation->done = preparation->done && (server->left || config_files_distinct(server->config, &preparation->failure));
}

static bool start_status(struct server *server, struct failure *failure) {
  server->tracer = tracer_new(&server->ops);
  server->pictures = pictures_new(&server->ops);
  if (!server->tracer || !server->pictures) {
    return startup_out_of_memory(failure);
  }
  if (!status_socket_serve(server, failure)) {
    return false;
  }
  http_address_follow(server);
  return true;
}

/* A pipeline that cannot start does not keep the others from starting: it is tried until it starts. One that was handed over
 * has to, since its connections are worth another try of all. */
static bool start_one(struct pipeline *pipeline, struct failure *failure) {
  bool starts = pipeline_start(pipeline, failure);
  bool waits = !starts && pipeline_may_start_later(pipeline);
  if (waits) {
    log_event(LOG_FAILED, pipeline_config(pipeline)->name, "it still cannot start, and is tried every two seconds: %s",
              failure->text);
  }
  return starts || waits;
}

static bool start_all(struct server *server, struct failure *failure) {
  server_note_files(server); /* before results are written to any file */
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (!start_one(server->pipelines[i], failure)) {
      return false;
    }
  }
  return ((recoveries_open(server) && checkup_start(server) && supervision_start(server) && waiting_follow(server)) ||
          startup_out_of_memory(failure)) &&
         start_status(server, failure);
}

static void say_ready(struct server *server) {
  if (server->left) {
    server_taken(server);
    fd_store_forget_last();
    server_note(server);
    supervision_say_ready(server);
    return;
  }
  const char *unclaimed = systemd_unclaimed();
  if (unclaimed) {
    log_event(LOG_UNCLAIMED, NULL,
              "systemd passed the socket '%s', which no pipeline names; call it like the pipeline, or "
              "NAME.out for its sink",
              unclaimed);
  }
  struct device *device = engine_main_device(server->engine);
  log_event(LOG_STARTED, NULL, "framed %s is ready: %u pipeline%s on %s (%s), %u lane%s", FRAMED_VERSION,
            server->pipeline_count, server->pipeline_count == 1 ? "" : "s", device_name(device), device_backend_name(device),
            engine_lanes(server->engine), engine_lanes(server->engine) == 1 ? "" : "s");
  models_log(server->config, NULL);
  models_settle(server->config);
  if (server->recovers) {
    server_recovered(server);
  }
  fd_store_forget_last();
  server_note(server);
  supervision_say_ready(server);
}

/* -- a start that cannot be ----------------------------------------------------------------------------------------- */

/* A device that fails as soon as it is used after a fault is broken for good. Which one failed before does not tell: no driver
 * need have said which of all was at fault, and any of these may have been the first to be asked. */
static bool leave_out(struct server *server, const struct fault *fault) {
  struct history *history = &server->history;
  const unsigned device = fault->device;
  bool again = history->suspects && device != NO_DEVICE && engine_can_spare(server->engine, server->config, device, NULL);
  history->suspects = device != NO_DEVICE;
  if (again) {
    engine_leave_broken_out(server->engine, device, fault->error.text, fault->error.remedy);
  }
  return again;
}

_Noreturn static void end_by_faults(struct server *server, const struct fault *fault) {
  char text[128];
  snprintf(text, sizeof text, "the daemon ends, since that was more than %u times in a minute (gpu.faults)",
           server->config->gpu.faults);
  fault_log(fault, text);
  server_end_now(server, EXIT_STATUS_GPU_LOST);
}

/* Nothing of what was handed over has moved since, so that all of it is there for another try, with a device that may be well
 * then. The gap in service goes on until that try serves. */
static void take_up_once_more(struct server *server, const struct failure *why, struct failure *failure) {
  struct fault fault;
  struct history *history = &server->history;
  int64_t now = clock_now();
  unsigned limit = server->config->gpu.faults;
  unsigned device = server->engine ? engine_lost(server->engine) : NO_DEVICE;
  fault_of_device(&fault, device, why->text);
  snprintf(fault.error.remedy, sizeof fault.error.remedy, "%s", why->remedy);
  if (!leave_out(server, &fault) && history_is_too_fast(history, limit, now)) {
    end_by_faults(server, &fault);
  }
  fault_log(&fault, "what was handed over is taken up once more");
  log_flush();
  history_note_fault(history, now);
  history_end(history, HISTORY_FAULT, why->text, history->stopped);
  if (server_tell_next(server) && (!server->engine || engine_keep_absents(server->engine, server->left->state->engine))) {
    exec_repeat(failure);
  } else {
    failure_set_memory(failure, "not enough memory to take it up once more");
  }
}

/* A daemon that begins anew is worth more than a state that cannot be taken up. */
void server_fail_start(struct server *server, const struct failure *failure) {
  struct failure last = *failure;
  bool device = failure->device || (server->engine && engine_lost(server->engine) != NO_DEVICE);
  bool is_whole = server->left && !server->left->live; /* what a killed process noted is looked into once */
  if (is_whole && device) {
    take_up_once_more(server, failure, &last);
  }
  if (server->left) {
    server_start_over(last.text);
  }
  server->report(server, SERVER_FAILED, &(struct server_cause){.failure = failure});
}

static void on_prepared(void *context) {
  struct preparation *preparation = context;
  struct server *server = preparation->server;
  struct failure failure = preparation->failure;
  bool prepared = preparation->done;
  loop_timer_close(preparation->feed);
  free(preparation);
  if (prepared) {
    server->report(server, SERVER_PREPARED, NULL);
  } else {
    server_fail_start(server, &failure);
  }
}

void server_serve(struct server *server) {
  struct failure failure;
  fd_store_release();
  if (start_all(server, &failure)) {
    say_ready(server);
    engine_end_hurry(server->engine);
    exec_reserve(EXEC_RESERVE);
    server->report(server, SERVER_SERVES, NULL);
  } else {
    server_fail_start(server, &failure);
  }
}

static bool start_preparing(struct server *server, struct failure *failure) {
  struct preparation *preparation = calloc(1, sizeof *preparation);
  if (!preparation) {
    return startup_out_of_memory(failure);
  }
  preparation->server = server;
  if (!loop_job(&server->loop, prepare, on_prepared, preparation)) {
    free(preparation);
    return startup_out_of_memory(failure);
  }
  start_feeding(preparation);
  return true;
}

bool server_open_loop(struct server *server, struct failure *failure) {
  int status = loop_init(&server->loop);
  if (status == 0) {
    server->loop_open = true;
    status = mailbox_open(&server->control, &server->loop);
  }
  return status == 0 ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot make the control loop: %s", uv_strerror(status));
}

static unsigned count_files(const struct config *config) {
  unsigned files = 0;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    files += config->pipelines[i].source.endpoint == CONFIG_FILE;
    files += config->pipelines[i].sink.endpoint == CONFIG_FILE;
  }
  return files;
}

static void note_workers(struct server *server) {
  for (unsigned i = 0; i < engine_devices(server->engine); i++) {
    const unsigned number = engine_device_number(server->engine, i);
    if (!device_is_adopted(engine_device(server->engine, number))) {
      worker_history_begin(&server->workers[number], clock_now());
    }
  }
}

bool server_start(struct server *server, struct failure *failure) {
  sigset_t held;
  loop_expect_files(count_files(server->config));
  if (!server->left) {
    server_recover(server);
  }
  if (!rights_start(failure) || !signals_open(server, failure) || !open_status_listeners(server, failure)) {
    return false;
  }
  if (systemd_watches()) {
    systemd_watchdog(); /* the image before may have had no time to feed it, and opening devices takes long */
  }
  signals_held(&held);
  pthread_sigmask(SIG_SETMASK, &held, NULL); /* also where nothing was left: signals wait while one image follows another */
  bool hurries = server->left && (server->history.cause == HISTORY_FAULT || server->history.cause == HISTORY_DEVICE);
  server->engine = engine_open(server->config, server->left ? server->left->state->engine : NULL, hurries, failure);
  if (!server->engine) {
    return false;
  }
  note_workers(server);
  return make_pipelines(server, failure) && loop_can_work(failure) && start_preparing(server, failure);
}

/* -- what is given back at the end ------------------------------------------------------------------------------------ */

static void on_status_closed(void *context) {
  struct server *server = context;
  server->status = NULL;
}

void server_close_handles(struct server *server) {
  tracer_stop(server->tracer);
  pictures_stop(server->pictures);
  upgrade_cancel(server);
  device_change_cancel(server);
  if (server->status) {
    status_close(server->status, on_status_closed, server);
  }
  http_address_close(server);
  supervision_stop(server);
  waiting_stop(server);
  recoveries_stop(server);
  checkup_stop(server);
  signals_close(server);
  server->limit = loop_timer_close(server->limit);
  server->look = loop_timer_close(server->look);
  mailbox_close(&server->control);
}

void server_close(struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_release(server->pipelines[i]);
    pipeline_free(server->pipelines[i]);
  }
  free(server->pipelines);
  checkup_free(server);
  tracer_free(server->tracer);
  pictures_free(server->pictures);
  engine_close(server->engine);
  quota_free(server->quota);
  cameras_free(server->cameras);
  recoveries_free(server);
  listener_close(server->status_listener);
  listener_close(server->http_listener);
  if (server->loop_open && uv_loop_close(&server->loop) != 0) {
    log_event(LOG_FAILED, NULL, "the control loop ended with open handles");
    server->exit_status = EXIT_STATUS_INTERNAL;
  }
  while (server->generation) {
    struct generation *generation = server->generation;
    server->generation = generation->next;
    generation_free(generation);
  }
}
