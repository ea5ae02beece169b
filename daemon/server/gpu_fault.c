/*
 * What the daemon does when a worker ends or its device fails.
 *
 * The worker is killed if it still runs. The frames that were there are taken back while lanes stand still, and a set-up thread
 * starts another worker with the same memory and programs, which waits until the old process is gone (device_replace()).
 * Nothing else waits for a device.
 *
 * Where no worker can take its place, another image of the program goes on with everything. A device that fails too often is
 * left out, by such a hand-over too, or else the process ends. phases.c is told what is decided here, and enters the phase.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/server/private.h"
#include "daemon/state/exec.h"

enum { LIMIT_TEXT = 128 };
#define REWIND_NS (2 * NS_PER_S) /* for lanes to stand still */

static const char *say_limit(const struct server *server, char text[LIMIT_TEXT]) {
  unsigned limit = server->config->gpu.faults;
  snprintf(text, LIMIT_TEXT, "the daemon ends, since that was more than %u times in a minute (gpu.faults)", limit);
  return limit > 0 ? text : "the daemon ends at once, as gpu.faults has it";
}

void server_end_by_faults(struct server *server, const struct fault *fault) {
  char text[LIMIT_TEXT];
  fault_log(fault, say_limit(server, text));
  server_end_now(server, EXIT_STATUS_GPU_LOST);
}

void server_end_after_fault(struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_log_account(server->pipelines[i]);
    if (!server->reload ||
        !reload_is_at_sockets(server->reload)) { /* else the sockets of pipelines stay for the next process */
      pipeline_abandon(server->pipelines[i]);
    }
  }
  server_end_now(server, EXIT_STATUS_GPU_LOST);
}

__attribute__((format(printf, 3, 4))) static void end_by_fault(struct server *server, const struct fault *fault,
                                                               const char *why, ...) {
  if (server->phase == SERVER_FAULTED) {
    return; /* another device has failed meanwhile */
  }
  char outcome[sizeof((struct failure *)NULL)->text + 80];
  va_list arguments;
  va_start(arguments, why);
  vsnprintf(outcome, sizeof outcome, why, arguments);
  va_end(arguments);
  fault_log(fault, outcome);
  systemd_stopping("a device failed");
  fault_describe(fault, server->fault);
  server->report(server, SERVER_LOST, NULL);
}

/* Adds the frames that pipelines other than the one that saw the fault have on the device, as far as their lanes have said. */
static void add_others(const struct server *server, struct fault *fault) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    const struct config_pipeline *config = pipeline_config(server->pipelines[i]);
    struct health_work work;
    pipeline_work(server->pipelines[i], fault->device, &work);
    uint64_t told = fault->pipeline && strcmp(fault->pipeline, config->name) == 0 ? fault->frames : 0;
    if (work.frames > told) {
      fault_add_others(fault, work.frames - told, config->name);
    }
  }
}

void server_end_unanswered(void *context) {
  struct server *server = context;
  end_by_fault(server, server->unanswered, "the daemon ends, since a reload stands between two configurations");
}

/* While a reload exchanges pipelines nothing of them can be handed over. The exchange will be over soon. */
static void wait_for_reload(struct server *server, const struct fault *fault) {
  if (server->unanswered) {
    return;
  }
  server->unanswered = malloc(sizeof *fault);
  if (!server->unanswered) {
    end_by_fault(server, fault, "the daemon ends, since there is no memory to wait for a reload");
    return;
  }
  *server->unanswered = *fault;
  server->report(server, SERVER_FAULT_WAITS, NULL);
}

/* What nothing else helps against: another image of the program goes on with everything. */
static void hand_over(struct server *server, const struct fault *fault) {
  struct failure failure;
  char text[FAULT_TEXT], sentence[HISTORY_TEXT];
  snprintf(sentence, sizeof sentence, "%s%s%s", fault->pipeline ? fault->pipeline : "", fault->pipeline ? ": " : "",
           fault_describe(fault, text));
  server->history.suspects = true;
  if (server->reload) {
    reload_on_fault(server->reload);
  }
  server_hand_over(server, HISTORY_FAULT, sentence, NULL, &failure);
  end_by_fault(server, fault, "the daemon ends, since nothing could be taken up again (%s)", failure.text);
}

/* -- another worker ---------------------------------------------------------------------------------------------------- */

struct replacement {
  struct server *server;
  struct fault fault;
  struct gpu_error error;
  bool replaced;
  struct loop_timer *pause;    /* of one that the machine refuses for now */
  char sentence[HISTORY_TEXT]; /* of what came first, */
  char reason[GPU_TEXT];       /* the error alone, */
  int64_t stopped;             /* and since when the device stands still */
};

static uint64_t bit(unsigned device) { return UINT64_C(1) << device; }

/* What comes now finds the device lost still, or has the generation of the worker before. */
static void replace(void *context) {
  struct replacement *replacement = context;
  replacement->replaced =
      device_replace(engine_device(replacement->server->engine, replacement->fault.device), &replacement->error);
}

static void on_replaced(void *context);

/* A worker that fails at its start counts as any other. False: these were too many, or there is no memory. */
static bool replace_again(struct server *server, struct replacement *replacement) {
  const int64_t now = clock_now();
  const unsigned limit = server->config->gpu.faults, device = replacement->fault.device;
  const bool is_fault = !replacement->error.is_ended;
  replacement->fault.error = replacement->error;
  if (device_has_worker(engine_device(server->engine, device)) ||
      (is_fault && (limit == 0 || history_is_too_fast(&server->history, limit, now)))) {
    return false;
  }
  if (is_fault && engine_can_spare(server->engine, server->config, device, NULL)) { /* one that fails again at once is broken */
    engine_leave_broken_out(server->engine, device, replacement->error.text, replacement->error.remedy);
    return false;
  }
  if (is_fault) {
    history_note_fault(&server->history, now);
  }
  fault_log(&replacement->fault, "one more takes its place");
  history_end(&server->history, HISTORY_FAULT, replacement->sentence, server->history.stopped);
  return loop_job(&server->loop, replace, on_replaced, replacement);
}

static void try_again(void *context) {
  struct replacement *replacement = context;
  replacement->pause = loop_timer_close(replacement->pause);
  if (!loop_job(&replacement->server->loop, replace, on_replaced, replacement)) {
    on_replaced(replacement);
  }
}

/* What the machine refuses may be there a second later. */
static bool pause_replacement(struct server *server, struct replacement *replacement) {
  replacement->pause = replacement->error.of_system ? loop_timer_new(&server->loop, try_again, replacement) : NULL;
  if (replacement->pause) {
    log_event(LOG_FAILED, NULL, "no worker can be started, which is tried again in a second: %s", replacement->error.text);
    loop_timer_start(replacement->pause, 1000, 0);
  }
  return replacement->pause != NULL;
}

static void on_replaced(void *context) {
  struct replacement *replacement = context;
  struct server *server = replacement->server;
  const unsigned device = replacement->fault.device;
  const bool goes_on = server->phase == SERVER_RUNNING || server->phase == SERVER_STOPPING;
  if (!replacement->replaced && goes_on && pause_replacement(server, replacement)) {
    return;
  }
  exec_reserve(EXEC_RESERVE);
  if (!replacement->replaced && goes_on && replace_again(server, replacement)) {
    return;
  }
  const int64_t now = clock_now();
  server->replacing &= ~bit(device);
  device_judge_end(); /* whoever asked what can be spared has its answer */
  history_begin(&server->history, now);
  if (replacement->replaced) {
    struct worker_history *workers = &server->workers[device];
    worker_history_replace(workers, replacement->reason, replacement->stopped, now);
    checkup_revive(server, device);
    log_event(LOG_WORKER_REPLACED, NULL, "device %u has another worker: frames there stood still for %.3g ms", device,
              (double)workers->gap / (double)NS_PER_MS);
    server_note(server);
  } else if (goes_on) {
    replacement->fault.error = replacement->error;
    hand_over(server, &replacement->fault);
  }
  free(replacement);
}

/* Takes back the frames that were on the device, while lanes stand still. False: they cannot. */
static bool rewind_frames(struct server *server, unsigned device, bool is_blamed) {
  const int64_t now = clock_now();
  const struct lane_patience patience = {.file = now, .leaves_files = true, .limit = now + REWIND_NS};
  struct failure failure;
  bool rewound = engine_park(server->engine, &patience);
  if (rewound) {
    if (is_blamed && server_suspect(server, device, true, false) == 1) {
      server_suspect(server, device, true, true);
    }
    retry_restart(engine_retry(server->engine));
    for (unsigned i = 0; i < server->pipeline_count && rewound; i++) {
      rewound = pipeline_rewind(server->pipelines[i], device, &failure);
    }
  }
  engine_unpark(server->engine);
  for (unsigned i = 0; i < server->pipeline_count && rewound; i++) {
    pipeline_judge_rewind(server->pipelines[i]);
  }
  return rewound;
}

static bool replace_worker(struct server *server, const struct fault *fault) {
  char text[FAULT_TEXT];
  struct device *device = engine_device(server->engine, fault->device);
  struct replacement *replacement = device ? calloc(1, sizeof *replacement) : NULL;
  if (!replacement || (server->phase != SERVER_RUNNING && server->phase != SERVER_STOPPING)) {
    free(replacement);
    return false;
  }
  *replacement = (struct replacement){.server = server, .fault = *fault};
  snprintf(replacement->reason, sizeof replacement->reason, "%s", fault->error.text);
  snprintf(replacement->sentence, sizeof replacement->sentence, "%s%s%s", fault->pipeline ? fault->pipeline : "",
           fault->pipeline ? ": " : "", fault_describe(fault, text));
  device_abandon(device, fault->error.text);
  if (!rewind_frames(server, fault->device, !fault->error.is_ended) ||
      !loop_job(&server->loop, replace, on_replaced, replacement)) {
    free(replacement);
    return false;
  }
  exec_reserve(0); /* another worker needs descriptors even if clients have all others */
  replacement->stopped = clock_now();
  history_end(&server->history, HISTORY_FAULT, replacement->sentence, replacement->stopped);
  server->replacing |= bit(fault->device);
  return true;
}

static void take_up_again(struct server *server, const struct fault *fault) {
  fault_log(fault, "another one takes its place");
  if (!replace_worker(server, fault)) {
    hand_over(server, fault);
  }
}

/* A device that fails again and again is left out, where every pipeline has another one. */
static bool leave_out(struct server *server, const struct fault *fault, unsigned limit) {
  char text[ENGINE_TEXT];
  if (limit == 0 || !engine_device(server->engine, fault->device) ||
      !engine_can_spare(server->engine, server->config, fault->device, NULL)) {
    return false;
  }
  snprintf(text, sizeof text, "it failed more than %u times in a minute: %.200s", limit, fault->error.text);
  engine_leave_out(server->engine, fault->device, ENGINE_FAILED, text);
  log_event(LOG_DEVICE, NULL, "device %u is left out, and its sessions move to others: %s", fault->device, text);
  memset(server->history.faults, 0, sizeof server->history.faults);
  return true;
}

/* By the configuration in force, which a reload that was under way may have brought. */
static void answer_fault(struct server *server, const struct fault *fault) {
  int64_t now = clock_now();
  unsigned limit_a_minute = server->config->gpu.faults;
  /* it is the suspected frame's fault, or the daemon's own doing, and not the device's */
  bool is_known = retry_is_on(engine_retry(server->engine)) || fault->error.is_ended;
  bool is_too_much = !fault->error.is_ended &&
                     (limit_a_minute == 0 || (!is_known && history_is_too_fast(&server->history, limit_a_minute, now)));
  if (is_too_much && !leave_out(server, fault, limit_a_minute)) {
    char text[LIMIT_TEXT];
    end_by_fault(server, fault, "%s", say_limit(server, text));
  } else {
    if (!is_known) {
      history_note_fault(&server->history, now);
    }
    if (is_too_much) { /* the device is left out: its sessions are placed anew */
      fault_log(fault, "everything is taken up again");
      hand_over(server, fault);
    } else {
      take_up_again(server, fault);
    }
  }
}

/* The pipeline that saw the fault may have gone with the reload. */
void server_answer_fault(struct server *server) {
  struct fault fault = *server->unanswered;
  bool is_there = false;
  free(server->unanswered);
  server->unanswered = NULL;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    is_there = is_there || pipeline_config(server->pipelines[i])->name == fault.pipeline;
  }
  fault.pipeline = is_there ? fault.pipeline : NULL;
  answer_fault(server, &fault);
}

/* It tells of a worker that has been replaced, or is being. */
static bool is_stale(const struct server *server, const struct fault *fault) {
  const struct device *device = engine_device(server->engine, fault->device);
  if (!device) {
    return false;
  }
  bool is_old = fault->pipeline ? fault->generation != device_generation(device) : !device_is_lost(device);
  return is_old || (server->replacing & bit(fault->device)) != 0;
}

void server_fault(struct server *server, const struct server_cause *cause) {
  struct fault fault = *cause->fault;
  struct failure later;
  if (server->handing_over || is_stale(server, &fault)) {
    return;
  }
  add_others(server, &fault);
  if (server->reload && !server_may_hand_over(server, &later)) {
    wait_for_reload(server, &fault);
  } else {
    answer_fault(server, &fault);
  }
}
