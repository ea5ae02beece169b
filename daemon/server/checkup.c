/*
 * The daemon's check-up of itself: a canary goes to each device that no frame has been on lately, a device whose canary does
 * not come back is lost, and measure/health.c judges what is known of lanes, devices and pipelines at one moment.
 *
 * The control loop only orders canaries and reads what became of them; nothing here waits for a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/systemd.h"
#include "daemon/frame/canary.h"
#include "daemon/measure/health.h"
#include "daemon/server/private.h"

#define STANDSTILL (300 * NS_PER_MS) /* a tick that comes so much too late: the whole process was stopped */
#define REMEMBERED (60 * NS_PER_S)
#define LANE_LIMIT (5 * NS_PER_S) /* where no watchdog says how often lanes have to finish a turn */

enum { LOOKS_A_PERIOD = 4 };

/* A canary is given up after its time; a call into the device that has not returned so long after that never will. */
#define NO_RETURN NS_PER_S

struct probe { /* of a device */
  unsigned number;
  struct canary *canary;
  int64_t ordered;
};

struct checkup {
  struct loop_timer *timer;
  struct probe *probes;
  unsigned count;
  int64_t expected; /* when the timer should fire */
  int64_t stood;    /* how long the control loop stood still at most, */
  int64_t stood_at; /* and until when: after a minute another one counts */
  int64_t awake;    /* when the process last came to itself after a standstill */
  int64_t rested;   /* until when no canary could be expected back: a start or a reload keeps the driver busy */
};

static int64_t checkup_later(int64_t a, int64_t b) { return a > b ? a : b; }

/* -- what is known --------------------------------------------------------------------------------------------------- */

static void read_device(const struct server *server, const struct probe *probe, struct health_device *device) {
  struct canary_view view;
  int64_t since;
  const bool waits = recovery_waits(server, probe->number, &since) != NULL;
  canary_read(probe->canary, &view);
  *device = (struct health_device){
      .number = probe->number,
      .fault = waits ? NULL : view.failure,
      .completed = atomic_load_explicit(engine_completion(server->engine, probe->number), memory_order_relaxed),
      .probed = waits ? clock_now() : checkup_later(view.returned, server->checkup->rested),
  };
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    struct health_work work;
    pipeline_work(server->pipelines[i], probe->number, &work);
    if (work.frames > 0 && (device->work.frames == 0 || work.since < device->work.since)) {
      device->work.since = work.since;
    }
    device->work.frames += work.frames;
    device->work.alone = checkup_later(device->work.alone, work.alone);
  }
}

/* How long the control loop stood still at most within the last minute, be it until now. */
static int64_t stood_longest(const struct checkup *checkup, int64_t now) {
  int64_t late = now - checkup->expected;
  int64_t before = now - checkup->stood_at < REMEMBERED ? checkup->stood : 0;
  return checkup_later(late > STANDSTILL ? late : 0, before);
}

static struct health_moment checkup_moment(const struct server *server) {
  int64_t timeout = server->config->gpu.timeout_ns;
  int64_t watchdog = systemd_watchdog_interval();
  int64_t now = clock_now();
  bool stands = now - server->checkup->expected > STANDSTILL; /* /v1/health may be asked before the timer has fired again */
  return (struct health_moment){.now = now,
                                .awake = stands ? now : server->checkup->awake,
                                .limit = health_limit(timeout),
                                .period = health_period(timeout),
                                .lane_limit = watchdog > 0 ? watchdog / 2 : LANE_LIMIT};
}

/* -- the judgement --------------------------------------------------------------------------------------------------- */

static void judge_device(const struct server *server, const struct health_moment *moment, const struct probe *probe,
                         struct health_item *item) {
  struct health_device device;
  struct canary_view view;
  read_device(server, probe, &device);
  health_of_device(moment, &device, item);
  canary_read(probe->canary, &view);
  item->canary_s = (double)view.round_trip / (double)NS_PER_S;
  item->canary_age_s = (double)checkup_later(moment->now - view.returned, 0) / (double)NS_PER_S;
}

/* Writes to `item`, unless that is NULL, and counts. */
static unsigned judge_broken(const struct server *server, const struct health_moment *moment, struct health_item *item) {
  unsigned count = 0;
  for (unsigned i = 0; i < engine_absents(server->engine); i++) {
    const struct engine_absent *absent = engine_absent(server->engine, i);
    if (absent->why == ENGINE_FAILED && item) {
      health_of_left_out(moment, absent->number, absent->since, absent->text, &item[count]);
    }
    count += absent->why == ENGINE_FAILED;
  }
  for (unsigned i = 0; i < server->checkup->count; i++) {
    const unsigned number = server->checkup->probes[i].number;
    int64_t since;
    const char *why = recovery_waits(server, number, &since);
    if (why && !engine_find_absent(server->engine, number)) {
      if (item) {
        health_of_waiting(moment, number, since, why, &item[count]);
      }
      count++;
    }
  }
  return count;
}

/* By what it has on each of its devices: the first that does not move counts. */
static void judge_pipeline(const struct server *server, const struct health_moment *moment, const struct pipeline *pipeline,
                           struct health_item *item) {
  const struct checkup *checkup = server->checkup;
  struct health_device device = {0};
  struct health_work work = {0};
  health_of_pipeline(moment, pipeline_config(pipeline)->name, &device, &work, item);
  for (unsigned i = 0; i < checkup->count && item->ok; i++) {
    read_device(server, &checkup->probes[i], &device);
    pipeline_work(pipeline, checkup->probes[i].number, &work);
    health_of_pipeline(moment, pipeline_config(pipeline)->name, &device, &work, item);
  }
}

/* How many troubles all pipelines have together; writes them to `item`, unless that is NULL. */
static unsigned judge_troubles(const struct server *server, const struct health_moment *moment, struct health_item *item) {
  unsigned count = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    struct pipeline_trouble troubles[PIPELINE_TROUBLES];
    unsigned found = pipeline_troubles(server->pipelines[i], troubles);
    for (unsigned j = 0; item && j < found; j++) {
      health_of_trouble(moment, pipeline_config(server->pipelines[i])->name, troubles[j].reason, troubles[j].trouble,
                        &item[count + j]);
    }
    count += found;
  }
  return count;
}

struct health *server_health(const struct server *server) {
  const struct checkup *checkup = server->checkup;
  const struct health_moment moment = checkup_moment(server);
  unsigned count =
      1 + checkup->count + judge_broken(server, &moment, NULL) + server->pipeline_count + judge_troubles(server, &moment, NULL);
  struct health *health = calloc(1, sizeof *health + count * sizeof health->items[0]);
  if (!health) {
    return NULL;
  }
  struct health_item *item = health->items;
  health->count = count;
  health_of_lanes(&moment, engine_beat(server->engine), item++);
  for (unsigned i = 0; i < checkup->count; i++) {
    judge_device(server, &moment, &checkup->probes[i], item++);
  }
  item += judge_broken(server, &moment, item);
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    judge_pipeline(server, &moment, server->pipelines[i], item++);
  }
  judge_troubles(server, &moment, item);
  health_sum_up(health);
  health->standstill_s = (double)stood_longest(checkup, moment.now) / (double)NS_PER_S;
  return health;
}

/* -- canaries -------------------------------------------------------------------------------------------------------- */

/* A canary says itself when it is late, but not from within a call into the device that does not return. */
static bool is_stuck(const struct checkup *checkup, const struct probe *probe, const struct canary_view *view,
                     const struct health_device *device, int64_t now, int64_t patience) {
  int64_t since = checkup_later(checkup_later(view->sent, probe->ordered),
                                checkup_later(device->completed, checkup_later(checkup->awake, checkup->rested)));
  return view->under_way && now - since > patience + NO_RETURN;
}

static void checkup_tend(struct server *server, struct probe *probe, const struct health_moment *moment) {
  struct canary_view view;
  struct health_device device;
  canary_read(probe->canary, &view);
  read_device(server, probe, &device);
  /* That of a frame, if it is not too short for a canary, which may wait behind one. */
  int64_t patience = 2 * health_device_limit(moment, &device);
  atomic_store_explicit(engine_slowest(server->engine, probe->number), device.work.alone, memory_order_relaxed);
  if (view.failure) {
    struct fault fault;
    fault_of_device(&fault, probe->number, view.failure);
    server->report(server, SERVER_FAULT, &(struct server_cause){.fault = &fault});
  } else if (is_stuck(server->checkup, probe, &view, &device, moment->now, patience)) {
    struct fault fault;
    char text[GPU_TEXT];
    snprintf(text, sizeof text, "a call into device %u does not return, for %.3g s now", probe->number,
             (double)(patience + NO_RETURN) / (double)NS_PER_S);
    fault_of_device(&fault, probe->number, text);
    server->report(server, SERVER_FAULT, &(struct server_cause){.fault = &fault});
  } else if (!server->reload && device.work.frames == 0 &&
             moment->now - checkup_later(device.completed, view.returned) >= moment->period) {
    probe->ordered = view.under_way ? probe->ordered : moment->now;
    canary_send(probe->canary, patience);
  }
}

static void checkup_arm(struct server *server, const struct health_moment *moment) {
  int64_t rest = moment->period / LOOKS_A_PERIOD;
  server->checkup->expected = moment->now + rest;
  loop_timer_start(server->checkup->timer, (uint64_t)(rest / NS_PER_MS), 0);
}

static void on_check(void *context) {
  struct server *server = context;
  struct checkup *checkup = server->checkup;
  struct health_moment moment = checkup_moment(server);
  checkup->awake = moment.awake;
  int64_t longest = stood_longest(checkup, moment.now);
  if (longest != checkup->stood) {
    checkup->stood = longest;
    checkup->stood_at = moment.now;
  }
  if (server->reload) {
    checkup->rested = moment.now;
  }
  checkup_arm(server, &moment);
  for (unsigned i = 0; i < checkup->count && server->phase < SERVER_ENDING; i++) {
    checkup_tend(server, &checkup->probes[i], &moment);
  }
}

/* -- life ------------------------------------------------------------------------------------------------------------ */

bool checkup_prepare(struct server *server, struct failure *failure) {
  unsigned count = engine_devices(server->engine);
  struct checkup *checkup = server->checkup = calloc(1, sizeof *checkup);
  if (!checkup || !(checkup->probes = calloc(count, sizeof *checkup->probes))) {
    return failure_set_memory(failure, "not enough memory to start");
  }
  for (unsigned i = 0; i < count; i++) {
    struct probe *probe = &checkup->probes[checkup->count];
    probe->number = engine_device_number(server->engine, i);
    const struct canary_setup setup = {.device = engine_device(server->engine, probe->number),
                                       .number = probe->number,
                                       .completion = engine_completion(server->engine, probe->number)};
    probe->canary = canary_new(&setup, failure);
    if (!probe->canary) {
      return false;
    }
    checkup->count++;
  }
  return true;
}

void checkup_revive(struct server *server, unsigned device) {
  struct checkup *checkup = server->checkup;
  for (unsigned i = 0; i < checkup->count; i++) {
    if (checkup->probes[i].number == device) {
      canary_revive(checkup->probes[i].canary);
    }
  }
  checkup->rested = clock_now();
}

bool checkup_start(struct server *server) {
  struct checkup *checkup = server->checkup;
  const struct health_moment moment = checkup_moment(server);
  checkup->awake = checkup->rested = moment.now;
  checkup->timer = loop_timer_new(&server->loop, on_check, server);
  if (checkup->timer) {
    checkup_arm(server, &moment);
  }
  return checkup->timer != NULL;
}

void checkup_stop(struct server *server) {
  if (server->checkup) {
    server->checkup->timer = loop_timer_close(server->checkup->timer);
  }
}

void checkup_free(struct server *server) {
  struct checkup *checkup = server->checkup;
  if (!checkup) {
    return;
  }
  while (checkup->count > 0) {
    canary_free(checkup->probes[--checkup->count].canary);
  }
  free(checkup->probes);
  free(checkup);
  server->checkup = NULL;
}
