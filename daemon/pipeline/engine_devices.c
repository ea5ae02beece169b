/*
 * The devices of the engine: which are opened, and which are left out.
 *
 * A device is left out if it was drained or is permanently broken: it cannot be opened, or it failed again and again. No
 * session moves while frames run. To leave a device out or to bring it back, the daemon starts another process image, which
 * assigns all sessions with their frames again.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/device/formats.h"
#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"

const char *const engine_absence_names[] = {[ENGINE_DRAINED] = "drained", [ENGINE_FAILED] = "failed"};

bool engine_failure(struct failure *failure, const struct gpu_error *error) {
  return error->no_device ? failure_set(failure, EXIT_STATUS_NO_GPU, error->remedy, "%s", error->text)
                          : device_failure(failure, error, NULL);
}

/* -- queries ---------------------------------------------------------------------------------------------------------- */

struct opened *engine_find_opened(const struct engine *engine, unsigned index) {
  for (unsigned i = 0; i < engine->device_count; i++) {
    if (engine->devices[i].index == index) {
      return &engine->devices[i];
    }
  }
  return NULL;
}

struct device *engine_device(const struct engine *engine, unsigned index) {
  const struct opened *opened = engine_find_opened(engine, index);
  return opened ? opened->device : NULL;
}

_Atomic int64_t *engine_completion(const struct engine *engine, unsigned index) {
  struct opened *opened = engine_find_opened(engine, index);
  return opened ? &opened->completion : NULL;
}

_Atomic int64_t *engine_slowest(const struct engine *engine, unsigned index) {
  struct opened *opened = engine_find_opened(engine, index);
  return opened ? &opened->slowest : NULL;
}

double *engine_served(const struct engine *engine, unsigned index) {
  struct opened *opened = engine_find_opened(engine, index);
  return opened ? opened->served : NULL;
}

struct retry *engine_retry(struct engine *engine) {
  return &engine->retry;
}

struct device *engine_main_device(const struct engine *engine) {
  return engine->devices[0].device;
}

unsigned engine_lost(const struct engine *engine) {
  for (unsigned i = 0; i < engine->device_count; i++) {
    if (device_is_lost(engine->devices[i].device)) {
      return engine->devices[i].index;
    }
  }
  return NO_DEVICE;
}

unsigned engine_devices(const struct engine *engine) { return engine->device_count; }

unsigned engine_device_number(const struct engine *engine, unsigned index) { return engine->devices[index].index; }

unsigned engine_producers(const struct engine *engine, unsigned index) {
  const struct opened *opened = engine_find_opened(engine, index);
  return opened ? opened->producers : 0;
}

void engine_usage(const struct engine *engine, struct gpu_usage *usage) {
  *usage = (struct gpu_usage){0};
  for (unsigned i = 0; i < engine->device_count; i++) {
    struct gpu_usage one;
    device_usage(engine->devices[i].device, &one);
    usage->pinned += one.pinned;
    usage->allocated += one.allocated;
  }
}

static const enum device_standby ways[] = {[CONFIG_STANDBY_AUTO] = DEVICE_STANDBY_AUTO,
                                           [CONFIG_STANDBY_WARM] = DEVICE_STANDBY_WARM,
                                           [CONFIG_STANDBY_BARE] = DEVICE_STANDBY_BARE,
                                           [CONFIG_STANDBY_OFF] = DEVICE_STANDBY_OFF};

bool engine_may_renew(const struct engine *engine, unsigned index, enum config_standby standby) {
  struct device *device = engine_device(engine, index);
  return !device_is_lost(device) && device_is_outdated(device) && device_can_switch(device, ways[standby]);
}

bool engine_stand_by(struct engine *engine, enum config_standby standby, struct gpu_error *error) {
  bool all = true;
  for (unsigned i = 0; i < engine->device_count; i++) {
    all = device_stand_by(engine->devices[i].device, ways[standby], error) && all;
  }
  return all;
}

/* -- the devices of a pipeline, as bits ---------------------------------------------------------------------------------- */

static uint64_t bit(unsigned number) { return UINT64_C(1) << number; }

uint64_t engine_named_by(const struct engine *engine, const struct config_pipeline *config) {
  if (config->devices == CONFIG_ALL_DEVICES) {
    return engine->there < ENGINE_MOST_DEVICES ? bit(engine->there) - 1 : CONFIG_ALL_DEVICES;
  }
  return config->devices != 0 ? config->devices : bit(config->device);
}

static uint64_t named_by_any(const struct engine *engine, const struct config *config) {
  uint64_t named = bit(config->gpu.device);
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    named |= engine_named_by(engine, &config->pipelines[i]);
  }
  return named;
}

uint64_t engine_left_out(const struct engine *engine) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < engine->absent_count; i++) {
    bits |= bit(engine->absents[i].number);
  }
  return bits;
}

bool engine_can_spare(const struct engine *engine, const struct config *config, unsigned number, const char **pipeline) {
  uint64_t stays = ~(engine_left_out(engine) | bit(number));
  const char *without = NULL;
  for (unsigned i = 0; i < config->pipeline_count && !without; i++) {
    without = (engine_named_by(engine, &config->pipelines[i]) & stays) == 0 ? config->pipelines[i].name : NULL;
  }
  if (pipeline) {
    *pipeline = without;
  }
  return !without && (named_by_any(engine, config) & stays) != 0;
}

/* -- devices that are left out --------------------------------------------------------------------------------------------- */

unsigned engine_absents(const struct engine *engine) { return engine->absent_count; }

const struct engine_absent *engine_absent(const struct engine *engine, unsigned index) { return &engine->absents[index]; }

const struct engine_absent *engine_find_absent(const struct engine *engine, unsigned number) {
  for (unsigned i = 0; i < engine->absent_count; i++) {
    if (engine->absents[i].number == number) {
      return &engine->absents[i];
    }
  }
  return NULL;
}

void engine_leave_out(struct engine *engine, unsigned number, enum engine_absence why, const char *text) {
  const struct device *device = engine_device(engine, number);
  engine_take_back(engine, number);
  struct engine_absent *absent = &engine->absents[engine->absent_count++];
  *absent = (struct engine_absent){.number = number, .why = why, .since = clock_now()};
  snprintf(absent->name, sizeof absent->name, "%s", device ? device_name(device) : "");
  snprintf(absent->text, sizeof absent->text, "%s", text);
}

void engine_take_back(struct engine *engine, unsigned number) {
  unsigned kept = 0;
  for (unsigned i = 0; i < engine->absent_count; i++) {
    if (engine->absents[i].number != number) {
      engine->absents[kept++] = engine->absents[i];
    }
  }
  engine->absent_count = kept;
}

/* -- from one process to the next ------------------------------------------------------------------------------------------ */

static bool adopt_known(struct engine *engine, const struct engine *address) {
  const struct engine *left = image_left_at(address, IMAGE_ENGINE, sizeof *left);
  bool sound = left && left->absent_count <= ENGINE_MOST_DEVICES && left->there <= ENGINE_MOST_DEVICES;
  for (unsigned i = 0; sound && i < left->absent_count; i++) {
    struct engine_absent *absent = &engine->absents[i];
    *absent = left->absents[i];
    absent->name[sizeof absent->name - 1] = absent->text[sizeof absent->text - 1] = '\0';
    sound = absent->number < ENGINE_MOST_DEVICES && absent->why <= ENGINE_FAILED && image_is_time(absent->since);
  }
  for (unsigned i = 0; sound && i < ENGINE_MOST_DEVICES; i++) { /* also for absent devices, for when they come back */
    const char *bus_address = left->known[i].calibration.address;
    sound = IMAGE_IS_FLAG(left->known[i].is_known) && memchr(bus_address, '\0', sizeof left->known[i].calibration.address);
    if (sound) {
      engine->known[i] = left->known[i];
    }
  }
  engine->absent_count = sound ? left->absent_count : 0;
  engine->there = sound ? left->there : 0;
  return sound;
}

bool engine_keep_absents(const struct engine *engine, const struct engine *address) {
  struct engine *left = image_left_at(address, IMAGE_ENGINE, sizeof *left);
  if (left) {
    memcpy(left->absents, engine->absents, sizeof left->absents);
    left->absent_count = engine->absent_count;
  }
  return left;
}

/* -- opening
 * ------------------------------------------------------------------------------------------------------------------- */

/* Threads per device: the devices of the CPU backend share the processors. 0: one device has all. */
static unsigned workers_of_each(uint64_t named) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned devices = (unsigned)__builtin_popcountll(named);
  unsigned each = processors > 0 ? (unsigned)processors / devices : 1;
  return devices < 2 ? 0 : each > 0 ? each : 1;
}

/* Slots of a pipeline's sessions on each of that many devices. */
static unsigned slots_of_each(const struct config_pipeline *config, unsigned devices) {
  const unsigned clients = config->source.clients;
  return config->spread == CONFIG_SPREAD_FRAMES ? (config->slots + devices - 1) / devices * clients
                                                : config->slots * ((clients + devices - 1) / devices);
}

/* Slots on the device that has most. The number of devices is known from the previous process; otherwise at least one is
 * assumed. */
static unsigned most_slots(const struct engine *engine, const struct config *config) {
  unsigned most = 0;
  for (unsigned number = 0; number < ENGINE_MOST_DEVICES; number++) {
    unsigned slots = 0;
    for (unsigned i = 0; i < config->pipeline_count; i++) {
      const struct config_pipeline *pipeline = &config->pipelines[i];
      bool is_unknown = pipeline->devices == CONFIG_ALL_DEVICES && engine->there == 0;
      uint64_t named = is_unknown ? bit(number) : engine_named_by(engine, pipeline) & ~engine_left_out(engine);
      slots += named & bit(number) ? slots_of_each(pipeline, (unsigned)__builtin_popcountll(named)) : 0;
    }
    most = slots > most ? slots : most;
  }
  return most;
}

static struct worker_realtime realtime_of(const struct config_realtime *realtime) {
  static const int policies[] = {[CONFIG_POLICY_OTHER] = 0, [CONFIG_POLICY_FIFO] = SCHED_FIFO, [CONFIG_POLICY_RR] = SCHED_RR};
  return (struct worker_realtime){.policy = policies[realtime->policy], .priority = (int32_t)realtime->priority};
}

static bool open_device(struct engine *engine, const struct config *config, unsigned index, struct failure *failure) {
  const struct known *known = &engine->known[index];
  struct gpu_error error = {.stage = -1};
  const struct device_setup setup = {.choice = formats_backend(config->gpu.backend),
                                     .index = index,
                                     .workers = workers_of_each(named_by_any(engine, config)),
                                     .slots = most_slots(engine, config),
                                     .hurries = engine->hurries,
                                     .known = known->is_known ? &known->calibration : NULL,
                                     .realtime = realtime_of(&engine->realtime)};
  struct device *device = device_open(&setup, &error);
  if (!device) {
    engine_failure(failure, &error);
    failure->device = !error.no_device || known->is_known; /* it existed, so the daemon has lost it */
    return false;
  }
  struct opened *opened = &engine->devices[engine->device_count++];
  opened->index = index;
  opened->device = device;
  return true;
}

void engine_end_hurry(struct engine *engine) {
  for (unsigned i = 0; i < engine->device_count; i++) {
    device_calm(engine->devices[i].device);
  }
}

static unsigned count_devices(const struct config *config) {
  return device_count(formats_backend(config->gpu.backend), config->gpu.count);
}

void engine_leave_broken_out(struct engine *engine, unsigned index, const char *reason, const char *remedy) {
  char text[ENGINE_TEXT];
  snprintf(text, sizeof text, "%s%s%s", reason, remedy[0] ? "; " : "", remedy);
  if (engine->known[index].is_known) {
    device_add_trouble(engine->known[index].calibration.address, text, sizeof text);
  }
  engine_leave_out(engine, index, ENGINE_FAILED, text);
  log_event(LOG_DEVICE, NULL, "device %u is left out, and the sessions that were to be on it are on others: %s", index, text);
}

static bool open_or_leave_out(struct engine *engine, const struct config *config, unsigned index, struct failure *failure) {
  if (engine_device(engine, index) || engine_find_absent(engine, index) || open_device(engine, config, index, failure)) {
    return true;
  }
  /* A device that existed before, or exists, is broken. Any other number may be a mistake in the configuration. */
  bool exists = engine->known[index].is_known || index < count_devices(config);
  if (!exists || !engine_can_spare(engine, config, index, NULL)) {
    return false;
  }
  engine_leave_broken_out(engine, index, failure->text, failure->remedy);
  return true;
}

static bool names_all(const struct config *config) {
  bool all = false;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    all = all || config->pipelines[i].devices == CONFIG_ALL_DEVICES;
  }
  return all;
}

static bool open_all(struct engine *engine, const struct config *config, struct failure *failure) {
  uint64_t named = named_by_any(engine, config);
  if (!open_or_leave_out(engine, config, config->gpu.device, failure)) {
    return false;
  }
  for (unsigned number = 0; number < ENGINE_MOST_DEVICES; number++) {
    if (named & bit(number) && !open_or_leave_out(engine, config, number, failure)) {
      return false;
    }
  }
  return engine->device_count > 0 ||
         failure_set(failure, EXIT_STATUS_GPU_LOST, "restart the daemon", "every device is left out");
}

bool engine_open_devices(struct engine *engine, const struct config *config, const struct engine *left,
                         struct failure *failure) {
  engine->devices = calloc(ENGINE_MOST_DEVICES, sizeof *engine->devices);
  if (!engine->devices) {
    return failure_set_memory(failure, "not enough memory to start");
  }
  if (left && !adopt_known(engine, left)) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the previous process left an invalid state of the devices");
  }
  const bool is_known = engine->there > 0; /* by the process before: to ask the driver takes a worker of its own */
  if (!is_known) {
    engine->there = names_all(config) ? count_devices(config) : 0;
  }
  bool opened = open_all(engine, config, failure);
  if (opened && !is_known) { /* a reload may name all devices, and the driver was not asked for them until now */
    engine->there = count_devices(config);
  }
  device_adopt_end();
  return opened;
}

static void want(const struct process_left *worker) {
  if (worker->version != 0) {
    fd_table_want(worker->control);
    fd_table_want(worker->counts);
  }
}

/* Calibrations may change while lanes run. */
void engine_keep(struct engine *engine, bool follows) {
  for (unsigned i = 0; i < ENGINE_MOST_DEVICES; i++) {
    engine->known[i].workers = (struct device_left){.serves = {.version = 0}};
  }
  for (unsigned i = 0; i < engine->device_count; i++) {
    struct known *known = &engine->known[engine->devices[i].index];
    device_calibration(engine->devices[i].device, &known->calibration);
    known->is_known = true;
    if (follows) {
      device_leave(engine->devices[i].device, &known->workers);
      want(&known->workers.serves);
      want(&known->workers.stands_by);
    }
  }
}

static void adopt_worker(unsigned index, bool stands_by, const struct process_left *left) {
  if (left->version != 0) {
    const int control = fd_table_take(left->control), counts = fd_table_take(left->counts);
    fd_table_leave(control, false); /* another image that takes all this up once more gets new workers */
    fd_table_leave(counts, false);
    device_adopt(index, stands_by, left, control, counts);
  }
}

void engine_adopt_workers(const struct engine *address) {
  const struct engine *left = image_left_at(address, IMAGE_ENGINE, sizeof *left);
  for (unsigned i = 0; left && i < ENGINE_MOST_DEVICES; i++) {
    adopt_worker(i, false, &left->known[i].workers.serves);
    adopt_worker(i, true, &left->known[i].workers.stands_by);
  }
}

void engine_close_devices(struct engine *engine) {
  while (engine->devices && engine->device_count > 0) {
    device_close(engine->devices[--engine->device_count].device);
  }
  retry_clear(&engine->retry);
  free(engine->devices);
}
