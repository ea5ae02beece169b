#include "daemon/pipeline/engine.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/realtime.h"
#include "daemon/pipeline/placement.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/image.h"

static bool engine_out_of_memory(struct failure *failure) { return failure_set_memory(failure, "not enough memory to start"); }

struct processors *engine_processors(struct engine *engine) {
  return &engine->processors;
}

/* -- lanes --------------------------------------------------------------------------------------------------- */

static unsigned count_lanes(const struct config *config) {
  const unsigned own = realtime_processors(&config->realtime);
  if (config->lanes > 0 || own == 1) {
    return config->lanes > 0 ? config->lanes : 1;
  }
  /* configured processors need not leave one to others */
  return placement_lanes(own > 0 ? (long)own + 1 : sysconf(_SC_NPROCESSORS_ONLN));
}

static bool open_lanes(struct engine *engine, const struct config *config, struct failure *failure) {
  const unsigned count = count_lanes(config);
  engine->lanes = calloc(count, sizeof(struct lane *));
  engine->loads = calloc(count, sizeof *engine->loads);
  if (!engine->lanes || !engine->loads) {
    return engine_out_of_memory(failure);
  }
  for (unsigned i = 0; i < count; i++) {
    engine->lanes[i] = lane_new(i, failure);
    if (!engine->lanes[i]) {
      return false;
    }
    engine->lane_count++;
    if (!realtime_apply(&config->realtime, lane_thread(engine->lanes[i]), failure)) {
      return false;
    }
  }
  return true;
}

unsigned engine_lanes(const struct engine *engine) { return engine->lane_count; }

static struct lane *engine_load(struct engine *engine, unsigned index, size_t bytes) {
  engine->loads[index] += bytes;
  return engine->lanes[index];
}

struct lane *engine_choose_lane(struct engine *engine, size_t bytes) {
  return engine_load(engine, placement_choose(engine->loads, engine->lane_count), bytes);
}

struct lane *engine_choose_other_lane(struct engine *engine, const struct lane *from, size_t bytes) {
  return engine_load(engine, placement_choose_other(engine->loads, engine->lane_count, lane_index(from)), bytes);
}

void engine_release_lane(struct engine *engine, const struct lane *lane, size_t bytes) {
  engine->loads[lane_index(lane)] -= bytes;
}

int64_t engine_beat(const struct engine *engine) {
  int64_t oldest = lane_heartbeat(engine->lanes[0]);
  for (unsigned i = 1; i < engine->lane_count; i++) {
    int64_t beat = lane_heartbeat(engine->lanes[i]);
    oldest = beat < oldest ? beat : oldest;
  }
  return oldest;
}

bool engine_park(struct engine *engine, const struct lane_patience *patience) {
  bool parked = true;
  for (unsigned i = 0; i < engine->lane_count; i++) {
    lane_park(engine->lanes[i]);
  }
  for (unsigned i = 0; i < engine->lane_count; i++) {
    parked = parked && lane_is_parked(engine->lanes[i], patience);
  }
  return parked;
}

bool engine_run_messages(struct engine *engine) {
  bool any = false;
  for (unsigned i = 0; i < engine->lane_count; i++) {
    any = lane_run_messages(engine->lanes[i]) || any;
  }
  return any;
}

void engine_unpark(struct engine *engine) {
  for (unsigned i = 0; i < engine->lane_count; i++) {
    lane_unpark(engine->lanes[i]);
  }
}

/* -- both ---------------------------------------------------------------------------------------------------- */

struct engine *engine_open(const struct config *config, const struct engine *left, bool hurries, struct failure *failure) {
  struct engine *engine = image_new(IMAGE_ENGINE, sizeof *engine);
  if (!engine) {
    engine_out_of_memory(failure);
    return NULL;
  }
  engine->hurries = hurries;
  engine->realtime = config->realtime;
  engine->realtime.processors = (struct config_processors){0}; /* a lane may spin for ever on its processor */
  /* other threads get a lower priority, so that a lane that wakes up runs first */
  engine->realtime.priority -= engine->realtime.priority > 1;
  if (!realtime_check(&config->realtime, failure) || !realtime_lock(&config->realtime, failure) ||
      !engine_open_devices(engine, config, left, failure) || !open_lanes(engine, config, failure)) {
    return engine_close(engine);
  }
  return engine;
}

struct engine *engine_close(struct engine *engine) {
  if (!engine) {
    return NULL;
  }
  for (unsigned i = 0; i < engine->lane_count; i++) {
    lane_stop(engine->lanes[i]);
  }
  while (engine->lane_count > 0) {
    lane_free(engine->lanes[--engine->lane_count]);
  }
  engine_close_devices(engine);
  free(engine->lanes);
  free(engine->loads);
  return image_free(engine);
}
