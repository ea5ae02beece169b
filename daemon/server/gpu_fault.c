/*
 * What the daemon does when a worker ends or its device fails.
 *
 * The worker is killed if it still runs. The frames that were there are taken back while lanes stand still, and a set-up thread
 * starts another worker with the same memory and programs, which waits until the old process is gone (device_replace()).
 * Nothing else waits for a device.
 *
 * A device whose workers fail too often waits: the next worker is started after a pause that grows from a second to a minute.
 * Meanwhile its pipelines keep their connections and frames. Where every pipeline has another device, the sessions move there
 * instead (devices.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/server/private.h"
#include "daemon/state/exec.h"

#define REWIND_NS (2 * NS_PER_S) /* for lanes to stand still */
#define SHORTEST  NS_PER_S
#define LONGEST   (60 * NS_PER_S)

struct recovery {      /* of a device */
  struct message lost; /* from the thread that watches its worker */
  atomic_bool is_posted;
  struct server *server;
  unsigned number;
  bool is_under_way; /* from its fault until it has another worker */
  bool is_rewound;   /* its frames were taken back */
  bool works;        /* a set-up thread is at it */
  bool waits;        /* its workers failed too often */
  bool moves;        /* its sessions will move to other devices */
  bool is_planned;   /* the worker before was sound */
  bool replaced;     /* what the set-up thread found */
  struct gpu_error error;
  int64_t since, back; /* when it failed, and when it was back after the fault before; CLOCK_MONOTONIC ns */
  int64_t pause;       /* the last one before a start; 0: faults are not too many */
  struct fault fault;
  struct loop_timer *timer;    /* of the pause */
  char sentence[HISTORY_TEXT]; /* what came first */
  char reason[GPU_TEXT];       /* its error alone */
};

static struct recovery *find_recovery(const struct server *server, unsigned device) {
  for (unsigned i = 0; i < server->recovery_count; i++) {
    if (server->recoveries[i].number == device) {
      return &server->recoveries[i];
    }
  }
  return NULL;
}

/* -- another worker ---------------------------------------------------------------------------------------------------- */

/* Names the session whose frame is there longest, which is the one that hangs if one does, and counts the frames of others. */
static void describe_frames(struct recovery *recovery) {
  const struct server *server = recovery->server;
  struct fault *fault = &recovery->fault;
  const struct session *oldest = NULL;
  int64_t since = INT64_MAX;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    const struct session *session = pipeline_oldest_on(server->pipelines[i], fault->device, &since);
    oldest = session ? session : oldest;
  }
  if (oldest) {
    session_describe(oldest, fault);
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    const char *name = pipeline_config(server->pipelines[i])->name;
    const uint64_t named = fault->pipeline && strcmp(fault->pipeline, name) == 0 ? fault->frames : 0;
    const uint64_t frames = pipeline_suspect(server->pipelines[i], fault->device, false, false);
    if (frames > named) {
      fault_add_others(fault, frames - named, name);
    }
  }
}

/* Takes back the frames that were on the device, while lanes stand still. False: they cannot yet. */
static bool rewind_frames(struct recovery *recovery) {
  struct server *server = recovery->server;
  const unsigned device = recovery->number;
  const int64_t now = clock_now();
  const struct lane_patience patience = {.file = now, .leaves_files = true, .limit = now + REWIND_NS};
  struct failure failure;
  bool rewound = engine_park(server->engine, &patience);
  if (rewound) {
    describe_frames(recovery);
    if (!recovery->is_planned && server_suspect(server, device, true, false) == 1) {
      server_suspect(server, device, true, true);
    }
    retry_restart(engine_retry(server->engine));
    for (unsigned i = 0; i < server->pipeline_count && rewound; i++) {
      rewound = pipeline_rewind(server->pipelines[i], device, &failure);
    }
  }
  for (struct hanging *hanging = server->hanging; hanging && rewound; hanging = hanging->next) {
    rewound = pipeline_rewind(hanging->pipeline, device, &failure);
  }
  engine_unpark(server->engine);
  return rewound;
}

static void try_rewind(struct recovery *recovery) { recovery->is_rewound = recovery->is_rewound || rewind_frames(recovery); }

/* After the log has the fault. */
static void finish_rewind(const struct recovery *recovery) {
  for (unsigned i = 0; i < recovery->server->pipeline_count && recovery->is_rewound; i++) {
    pipeline_finish_rewind(recovery->server->pipelines[i]);
  }
}

/* What comes now finds the device lost still, or has the generation of the worker before. */
static void replace(void *context) {
  struct recovery *recovery = context;
  recovery->replaced = device_replace(engine_device(recovery->server->engine, recovery->number), &recovery->error);
}

static void on_replaced(void *context);

static void start_worker(void *context) {
  struct recovery *recovery = context;
  struct server *server = recovery->server;
  exec_reserve(0);             /* another worker needs descriptors even if clients have all others */
  if (!recovery->is_rewound) { /* the lanes could not be parked before */
    try_rewind(recovery);
    finish_rewind(recovery);
  }
  recovery->works = recovery->is_rewound && loop_job(&server->loop, replace, on_replaced, recovery);
  if (!recovery->works) {
    exec_reserve(EXEC_RESERVE);
    loop_timer_start(recovery->timer, SHORTEST / NS_PER_MS, 0);
  }
}

static void wait_longer(struct recovery *recovery) {
  const unsigned limit = recovery->server->config->gpu.faults;
  char outcome[128];
  recovery->pause = recovery->pause == 0 ? SHORTEST : recovery->pause < LONGEST / 2 ? 2 * recovery->pause : LONGEST;
  recovery->waits = true;
  snprintf(outcome, sizeof outcome,
           "another one is started in %lld s, since that was more than %u times in a minute (gpu.faults)",
           (long long)(recovery->pause / NS_PER_S), limit);
  fault_log(&recovery->fault, outcome);
  loop_timer_start(recovery->timer, (uint64_t)(recovery->pause / NS_PER_MS), 0);
}

/* Sessions on a device that fails for good go to the others, where every pipeline has another one. */
static bool move_off(struct recovery *recovery, const char *why) {
  struct server *server = recovery->server;
  recovery->moves =
      engine_can_spare(server->engine, server->config, recovery->number, NULL) && server_move_off(server, recovery->number);
  if (recovery->moves) {
    fault_log(&recovery->fault, "its sessions move to other devices");
    engine_leave_broken_out(server->engine, recovery->number, why, recovery->fault.error.remedy);
    memset(server->history.faults, 0, sizeof server->history.faults);
  }
  return recovery->moves;
}

/* By the configuration in force, which a reload that was under way may have brought. `is_known`: it is a suspected
 * frame's fault. `starts`: the worker failed at its start.
 */
static void judge_fault(struct recovery *recovery, bool is_known, bool starts) {
  struct server *server = recovery->server;
  const struct gpu_error *error = &recovery->fault.error;
  const unsigned limit = server->config->gpu.faults;
  const int64_t now = clock_now();
  char why[ENGINE_TEXT];
  const bool is_too_much = limit == 0 || (!is_known && history_is_too_fast(&server->history, limit, now));
  if (!is_known) {
    history_note_fault(&server->history, now);
  }
  history_end(&server->history, HISTORY_FAULT, recovery->sentence, recovery->since);
  snprintf(why, sizeof why, "it failed more than %u times in a minute: %.200s", limit, error->text);
  if ((starts && move_off(recovery, error->text)) || (is_too_much && move_off(recovery, why))) {
    return;
  }
  if (is_too_much) {
    wait_longer(recovery);
  } else {
    fault_log(&recovery->fault, starts ? "one more takes its place" : "another one takes its place");
    start_worker(recovery);
  }
}

static void end_recovery(struct recovery *recovery) {
  struct server *server = recovery->server;
  recovery->is_under_way = false;
  recovery->back = clock_now();
  if (!recovery->is_planned) {
    server->history.stopped = recovery->since; /* another device may have failed since */
    history_begin(&server->history, recovery->back);
  }
  worker_history_replace(&server->workers[recovery->number], recovery->reason, recovery->since, recovery->back);
  server->revived = clock_now(); /* it has not answered the check-up yet */
  log_event(LOG_WORKER_REPLACED, NULL, "device %u has another worker: frames there stood still for %.3g ms", recovery->number,
            (double)(recovery->back - recovery->since) / (double)NS_PER_MS);
  server_note(server);
}

static void on_replaced(void *context) {
  struct recovery *recovery = context;
  struct server *server = recovery->server;
  recovery->works = false;
  exec_reserve(EXEC_RESERVE);
  device_judge_end(); /* whoever asked what can be spared has its answer */
  if (server->phase == SERVER_ENDING) {
    return;
  }
  if (recovery->replaced) {
    end_recovery(recovery);
  } else if (recovery->error.of_system) { /* what the machine refuses may be there a second later */
    log_event(LOG_FAILED, NULL, "no worker can be started, which is tried again in a second: %s", recovery->error.text);
    loop_timer_start(recovery->timer, SHORTEST / NS_PER_MS, 0);
  } else {
    fault_of_device(&recovery->fault, recovery->number, recovery->error.text);
    recovery->fault.error = recovery->error;
    judge_fault(recovery, false, true);
  }
}

/* -- faults ----------------------------------------------------------------------------------------------------------- */

static void begin_recovery(struct recovery *recovery, const struct gpu_error *error) {
  struct fault *fault = &recovery->fault;
  const int64_t now = clock_now();
  char text[FAULT_TEXT];
  recovery->is_under_way = true;
  recovery->is_rewound = recovery->waits = recovery->moves = false;
  recovery->since = now;
  recovery->pause = now - recovery->back < LONGEST ? recovery->pause : 0;
  *fault = (struct fault){.device = recovery->number, .error = *error};
  device_abandon(engine_device(recovery->server->engine, recovery->number), error);
  try_rewind(recovery);
  snprintf(recovery->sentence, sizeof recovery->sentence, "%s%s%s", fault->pipeline ? fault->pipeline : "",
           fault->pipeline ? ": " : "", fault_describe(fault, text));
  snprintf(recovery->reason, sizeof recovery->reason, "%s", error->text);
}

void server_fault(struct server *server, const struct server_cause *cause) {
  (void)cause;
  for (unsigned i = 0; i < server->recovery_count && !server->handing_over; i++) {
    struct recovery *recovery = &server->recoveries[i];
    struct gpu_error error;
    if (!recovery->is_under_way && !device_lives(engine_device(server->engine, recovery->number), &error)) {
      const bool is_known = retry_is_on(engine_retry(server->engine));
      recovery->is_planned = false;
      begin_recovery(recovery, &error);
      judge_fault(recovery, is_known, false);
      finish_rewind(recovery);
    }
  }
}

static void run_lost(struct message *message) {
  struct recovery *recovery = (struct recovery *)message;
  atomic_store(&recovery->is_posted, false);
  recovery->server->report(recovery->server, SERVER_FAULT, NULL);
}

static void on_lost(void *context) {
  struct recovery *recovery = context;
  if (!atomic_exchange(&recovery->is_posted, true)) {
    mailbox_post(&recovery->server->control, &recovery->lost);
  }
}

void server_renew_worker(struct server *server, unsigned device) {
  struct recovery *recovery = find_recovery(server, device);
  static const struct gpu_error reason = {.stage = -1, .text = "another framed-worker is installed"};
  recovery->is_planned = true;
  begin_recovery(recovery, &reason);
  finish_rewind(recovery);
  start_worker(recovery);
}

/* -- for others ------------------------------------------------------------------------------------------------------- */

bool recovery_is_under_way(const struct server *server, unsigned device) {
  const struct recovery *recovery = find_recovery(server, device);
  return recovery && recovery->is_under_way;
}

bool recoveries_are_at_work(const struct server *server) {
  bool any = false;
  for (unsigned i = 0; i < server->recovery_count; i++) {
    const struct recovery *recovery = &server->recoveries[i];
    const bool is_lost = device_is_lost(engine_device(server->engine, recovery->number)); /* which may not be known here yet */
    any = any || recovery->works || (is_lost && !recovery->waits && !recovery->moves);
  }
  return any;
}

void recoveries_hurry(struct server *server) {
  for (unsigned i = 0; i < server->recovery_count; i++) {
    struct recovery *recovery = &server->recoveries[i];
    if (recovery->is_under_way && !recovery->works && !recovery->moves) {
      loop_timer_start(recovery->timer, 0, 0);
    }
  }
}

const char *recovery_waits(const struct server *server, unsigned device, int64_t *since) {
  const struct recovery *recovery = find_recovery(server, device);
  bool waits = recovery && recovery->is_under_way && (recovery->waits || recovery->moves);
  *since = waits ? recovery->since : 0;
  return waits ? recovery->fault.error.text : NULL;
}

bool recoveries_open(struct server *server) {
  const unsigned count = engine_devices(server->engine);
  server->recoveries = calloc(count, sizeof *server->recoveries);
  for (; server->recoveries && server->recovery_count < count; server->recovery_count++) {
    struct recovery *recovery = &server->recoveries[server->recovery_count];
    *recovery = (struct recovery){.lost.run = run_lost,
                                  .server = server,
                                  .number = engine_device_number(server->engine, server->recovery_count),
                                  .timer = loop_timer_new(&server->loop, start_worker, recovery)};
    if (!recovery->timer) {
      return false;
    }
    device_on_lost(engine_device(server->engine, recovery->number), on_lost, recovery);
  }
  return server->recoveries != NULL;
}

void recoveries_stop(struct server *server) {
  for (unsigned i = 0; i < server->recovery_count; i++) {
    device_on_lost(engine_device(server->engine, server->recoveries[i].number), NULL, NULL);
    server->recoveries[i].timer = loop_timer_close(server->recoveries[i].timer);
  }
}

void recoveries_free(struct server *server) {
  free(server->recoveries);
  server->recoveries = NULL;
}
