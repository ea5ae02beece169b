#include "daemon/pipeline/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/formats.h"
#include "daemon/base/realtime.h"

enum { MOST_KNOWN = 64 }; /* devices */

struct opened {
  unsigned index;
  struct gpu_device *device;
  _Atomic int64_t completion; /* written by the lanes */
  struct retry retry;
  double served[OVERLAP_ENGINES]; /* us that its engines worked for all pipelines, up to their last readings */
};

struct engine {
  struct opened *devices; /* the first is gpu.device */
  unsigned device_count;
  struct lane **lanes;
  size_t *loads; /* bytes a frame of the sessions on each lane */
  unsigned lane_count;
  struct processors processors;
};

bool engine_failure(struct failure *failure, const struct gpu_error *error) {
  return failure_set(failure, error->no_device ? EXIT_STATUS_NO_GPU : EXIT_STATUS_INTERNAL, error->remedy, "%s", error->text);
}

static bool engine_out_of_memory(struct failure *failure) {
  return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory to start");
}

/* -- devices ------------------------------------------------------------------------------------------------- */

static struct opened *find_device(const struct engine *engine, unsigned index) {
  for (unsigned i = 0; i < engine->device_count; i++) {
    if (engine->devices[i].index == index) {
      return &engine->devices[i];
    }
  }
  return NULL;
}

struct gpu_device *engine_device(const struct engine *engine, unsigned index) {
  const struct opened *opened = find_device(engine, index);
  return opened ? opened->device : NULL;
}

_Atomic int64_t *engine_completion(const struct engine *engine, unsigned index) {
  struct opened *opened = find_device(engine, index);
  return opened ? &opened->completion : NULL;
}

double *engine_served(const struct engine *engine, unsigned index) {
  struct opened *opened = find_device(engine, index);
  return opened ? opened->served : NULL;
}

struct processors *engine_processors(struct engine *engine) {
  return &engine->processors;
}

struct retry *engine_trial(struct engine *engine, unsigned index) {
  struct opened *opened = find_device(engine, index);
  return opened ? &opened->retry : NULL;
}

struct gpu_device *engine_main_device(const struct engine *engine) {
  return engine->devices[0].device;
}

bool engine_has_lost(const struct engine *engine) {
  bool lost = false;
  for (unsigned i = 0; i < engine->device_count; i++) {
    lost = lost || gpu_is_lost(engine->devices[i].device);
  }
  return lost;
}

unsigned engine_devices(const struct engine *engine) { return engine->device_count; }

unsigned engine_device_number(const struct engine *engine, unsigned index) { return engine->devices[index].index; }

/* What a process before this one measured, by device. */
struct known {
  unsigned count;
  struct {
    unsigned index;
    struct gpu_calibration calibration;
  } devices[MOST_KNOWN];
};

static void take_known(struct known *known, struct codec *codec) {
  known->count = 0;
  if (!codec) {
    return;
  }
  codec_pass_below(codec, &known->count, MOST_KNOWN + 1);
  for (unsigned i = 0; i < known->count; i++) {
    CODEC_PASS(codec, known->devices[i].index);
    CODEC_PASS(codec, known->devices[i].calibration);
  }
}

void engine_put(const struct engine *engine, struct codec *codec) {
  unsigned count = engine->device_count < MOST_KNOWN ? engine->device_count : MOST_KNOWN;
  count = codec->live ? 0 : count; /* they may be measured at this moment */
  CODEC_PASS(codec, count);
  for (unsigned i = 0; i < count; i++) {
    struct gpu_calibration calibration;
    gpu_calibration(engine->devices[i].device, &calibration);
    CODEC_PASS(codec, engine->devices[i].index);
    CODEC_PASS(codec, calibration);
  }
}

static const struct gpu_calibration *find_known(const struct known *known, unsigned index) {
  for (unsigned i = 0; i < known->count; i++) {
    if (known->devices[i].index == index) {
      return &known->devices[i].calibration;
    }
  }
  return NULL;
}

static bool open_device(struct engine *engine, const struct config *config, unsigned index, const struct known *known,
                        struct failure *failure) {
  if (engine_device(engine, index)) {
    return true;
  }
  struct gpu_error error = {.stage = -1};
  struct gpu_device *device =
      gpu_open_calibrated(formats_backend(config->gpu.backend), index, 0, find_known(known, index), &error);
  if (!device) {
    engine_failure(failure, &error);
    failure->device = !error.no_device;
    return false;
  }
  struct opened *opened = &engine->devices[engine->device_count++];
  opened->index = index;
  opened->device = device;
  return true;
}

/* The slots of the sessions on the device that has most of them. */
static unsigned most_slots(const struct config *config) {
  unsigned most = 0;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    unsigned slots = 0;
    for (unsigned j = 0; j < config->pipeline_count; j++) {
      const struct config_pipeline *other = &config->pipelines[j];
      slots += other->device == config->pipelines[i].device ? other->slots * other->source.clients : 0;
    }
    most = slots > most ? slots : most;
  }
  return most;
}

static bool open_devices(struct engine *engine, const struct config *config, const struct known *known,
                         struct failure *failure) {
  engine->devices = calloc(config->pipeline_count + 1, sizeof *engine->devices);
  if (!engine->devices) {
    return engine_out_of_memory(failure);
  }
  gpu_expect(most_slots(config));
  if (!open_device(engine, config, config->gpu.device, known, failure)) {
    return false;
  }
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    if (!open_device(engine, config, config->pipelines[i].device, known, failure)) {
      return false;
    }
  }
  return true;
}

void engine_usage(const struct engine *engine, struct gpu_usage *usage) {
  *usage = (struct gpu_usage){0};
  for (unsigned i = 0; i < engine->device_count; i++) {
    struct gpu_usage one;
    gpu_usage(engine->devices[i].device, &one);
    usage->pinned += one.pinned;
    usage->allocated += one.allocated;
  }
}

bool engine_anchor(struct engine *engine, struct gpu_error *error) {
  for (unsigned i = 0; i < engine->device_count; i++) {
    if (!gpu_anchor(engine->devices[i].device, error)) {
      return false;
    }
  }
  return true;
}

/* -- placement ------------------------------------------------------------------------------------------------ */

enum { MOST_LANES = 4 }; /* more loops than that wait for the same memory bus */

/* Of smaller results writing costs less than waking the other lane. */
#define WORTH_A_LANE ((size_t)256 * 1024)

unsigned placement_choose(const size_t *loads, unsigned count) {
  unsigned best = 0;
  for (unsigned i = 1; i < count; i++) {
    if (loads[i] < loads[best]) {
      best = i;
    }
  }
  return best;
}

unsigned placement_choose_other(const size_t *loads, unsigned count, unsigned than) {
  unsigned best = than == 0 ? 1 : 0;
  for (unsigned i = best + 1; i < count; i++) {
    if (i != than && loads[i] < loads[best]) {
      best = i;
    }
  }
  return best;
}

bool placement_parts(size_t result_bytes, unsigned lanes) { return lanes > 1 && result_bytes >= WORTH_A_LANE; }

unsigned placement_lanes(long processors) {
  if (processors <= 2) {
    return processors == 2 ? 2 : 1;
  }
  return processors - 1 < MOST_LANES ? (unsigned)(processors - 1) : MOST_LANES;
}

/* -- lanes --------------------------------------------------------------------------------------------------- */

static unsigned count_lanes(const struct config *config) {
  const unsigned own = realtime_processors(&config->realtime);
  if (config->lanes > 0 || own == 1) {
    return config->lanes > 0 ? config->lanes : 1;
  }
  return placement_lanes(own > 0 ? (long)own + 1 : sysconf(_SC_NPROCESSORS_ONLN)); /* of its own none is left to others */
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

struct lane *engine_place(struct engine *engine, size_t bytes) {
  return engine_load(engine, placement_choose(engine->loads, engine->lane_count), bytes);
}

struct lane *engine_place_apart(struct engine *engine, const struct lane *from, size_t bytes) {
  return engine_load(engine, placement_choose_other(engine->loads, engine->lane_count, lane_index(from)), bytes);
}

void engine_unplace(struct engine *engine, const struct lane *lane, size_t bytes) { engine->loads[lane_index(lane)] -= bytes; }

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

struct engine *engine_open(const struct config *config, struct codec *codec, struct failure *failure) {
  struct known known;
  take_known(&known, codec);
  struct engine *engine = calloc(1, sizeof *engine);
  if (!engine) {
    engine_out_of_memory(failure);
    return NULL;
  }
  if (!realtime_check(&config->realtime, failure) || !realtime_lock(&config->realtime, failure) ||
      !open_devices(engine, config, &known, failure) || !open_lanes(engine, config, failure)) {
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
  while (engine->device_count > 0) {
    struct opened *opened = &engine->devices[--engine->device_count];
    gpu_close(opened->device);
    retry_clear(&opened->retry);
  }
  free(engine->lanes);
  free(engine->loads);
  free(engine->devices);
  free(engine);
  return NULL;
}
