/*
 * The daemon's check-up of itself. Each worker asks its device every second whether it answers (the canary), and a device on
 * which no frame is and that has not answered for too long loses its worker. measure/health.c judges what is known of lanes,
 * devices and pipelines at one moment.
 *
 * Nothing here waits for a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/health.h"
#include "daemon/server/private.h"

#define STANDSTILL (300 * NS_PER_MS) /* a tick that comes so much too late: the whole process was stopped */
#define REMEMBERED (60 * NS_PER_S)
#define LANE_LIMIT (5 * NS_PER_S) /* where no watchdog says how often lanes have to finish a turn */

enum { LOOKS_A_PERIOD = 4 };

struct checkup {
  struct loop_timer *timer;
  int64_t expected; /* when the timer should fire */
  int64_t stood;    /* how long the control loop stood still at most, */
  int64_t stood_at; /* and until when: after a minute another one counts */
  int64_t awake;    /* when the process last came to itself after a standstill */
  int64_t rested;   /* until when no device could be expected to answer: a start or a reload keeps the driver busy */
};

static int64_t checkup_later(int64_t a, int64_t b) { return a > b ? a : b; }

/* -- what is known --------------------------------------------------------------------------------------------------- */

static void read_device(const struct server *server, unsigned index, struct health_device *device) {
  const unsigned number = engine_device_number(server->engine, index);
  const int64_t period = health_period(server->config->gpu.timeout_ns);
  const struct device_canary canary = device_canary(engine_device(server->engine, number), period);
  const bool is_lost = recovery_is_under_way(server, number); /* what becomes of it is known, and no restart would mend it */
  *device = (struct health_device){
      .number = number,
      .completed = atomic_load_explicit(engine_completion(server->engine, number), memory_order_relaxed),
      .probed = is_lost ? clock_now() : checkup_later(canary.answered, checkup_later(server->checkup->rested, server->revived)),
      .canary_s = (double)canary.took / (double)NS_PER_S,
      .canary_age_s = canary.answered > 0 ? (double)checkup_later(clock_now() - canary.answered, 0) / (double)NS_PER_S : 0,
  };
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    struct health_work work;
    pipeline_work(server->pipelines[i], number, &work);
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

static void judge_device(const struct server *server, const struct health_moment *moment, unsigned index,
                         struct health_item *item) {
  struct health_device device;
  read_device(server, index, &device);
  health_of_device(moment, &device, item);
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
  for (unsigned i = 0; i < engine_devices(server->engine); i++) {
    const unsigned number = engine_device_number(server->engine, i);
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
  struct health_device device = {0};
  struct health_work work = {0};
  health_of_pipeline(moment, pipeline_config(pipeline)->name, &device, &work, item);
  for (unsigned i = 0; i < engine_devices(server->engine) && item->ok; i++) {
    read_device(server, i, &device);
    pipeline_work(pipeline, device.number, &work);
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
  const unsigned devices = engine_devices(server->engine);
  unsigned count =
      1 + devices + judge_broken(server, &moment, NULL) + server->pipeline_count + judge_troubles(server, &moment, NULL);
  struct health *health = calloc(1, sizeof *health + count * sizeof health->items[0]);
  if (!health) {
    return NULL;
  }
  struct health_item *item = health->items;
  health->count = count;
  health_of_lanes(&moment, engine_beat(server->engine), item++);
  for (unsigned i = 0; i < devices; i++) {
    judge_device(server, &moment, i, item++);
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

/* What is on a device is for the lanes to judge. The limit is that of a frame, behind which a canary may wait. */
static void checkup_tend(struct server *server, unsigned index, const struct health_moment *moment) {
  struct health_device device;
  read_device(server, index, &device);
  const int64_t patience = moment->period + 2 * health_device_limit(moment, &device);
  const int64_t silent = moment->now - checkup_later(checkup_later(device.completed, device.probed), server->checkup->awake);
  atomic_store_explicit(engine_slowest(server->engine, device.number), device.work.alone, memory_order_relaxed);
  if (device.work.frames == 0 && silent > patience) {
    struct gpu_error error = {.stage = -1};
    snprintf(error.text, sizeof error.text,
             "no canary has come back from device %u for %.3g s: it hangs, or its worker stands still", device.number,
             (double)silent / (double)NS_PER_S);
    device_abandon(engine_device(server->engine, device.number), &error);
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
  if (server->reload || server->attempt) {
    checkup->rested = moment.now;
  }
  checkup_arm(server, &moment);
  for (unsigned i = 0; i < engine_devices(server->engine) && server->phase < SERVER_ENDING; i++) {
    checkup_tend(server, i, &moment);
  }
}

/* -- life ------------------------------------------------------------------------------------------------------------ */

bool checkup_start(struct server *server) {
  struct checkup *checkup = server->checkup = calloc(1, sizeof *checkup);
  if (!checkup) {
    return false;
  }
  checkup->expected = checkup->awake = checkup->rested = clock_now();
  checkup->timer = loop_timer_new(&server->loop, on_check, server);
  if (checkup->timer) {
    const struct health_moment moment = checkup_moment(server);
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
  free(server->checkup);
  server->checkup = NULL;
}
