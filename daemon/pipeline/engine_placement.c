/*
 * Assigns each session to one device, or spreads its frames over all devices.
 */
#include "daemon/base/log_text.h"
#include "daemon/pipeline/placement.h"
#include "daemon/pipeline/private.h"

static uint64_t bit(unsigned number) { return UINT64_C(1) << number; }

/* Reports why a pipeline cannot have its devices. */
static bool refuse_devices(const struct engine *engine, const struct config_pipeline *config, uint64_t missing,
                           struct failure *failure) {
  unsigned number = (unsigned)__builtin_ctzll(missing);
  const struct engine_absent *absent = engine_find_absent(engine, number);
  if (absent) {
    return failure_set(failure, EXIT_STATUS_CONFIG, "bring it back with framectl device NUMBER resume, or name another one",
                       "pipeline '%s' has no device: device %u is left out (%s)", config->name, number,
                       engine_absence_names[absent->why]);
  }
  return failure_set(failure, EXIT_STATUS_CONFIG, "restart the daemon to open it",
                     "pipeline '%s' wants device %u, which was not in use when the daemon started", config->name, number);
}

static bool refuse_memory(const struct engine *engine, const struct config_pipeline *config, uint64_t named, size_t total,
                          struct failure *failure) {
  char needed_text[BYTES_TEXT], available_text[BYTES_TEXT];
  size_t available = 0;
  const char *name = NULL;
  for (unsigned i = 0; i < engine->device_count; i++) {
    size_t left, all;
    if (named & bit(engine->devices[i].index) && device_memory(engine->devices[i].device, &left, &all)) {
      name = name ? "its devices together" : device_name(engine->devices[i].device);
      available += left;
    }
  }
  return failure_set(failure, EXIT_STATUS_CONFIG, "use fewer slots or clients, smaller frames, or another device",
                     "pipeline '%s' takes %s of device memory, and %s has %s left", config->name,
                     text_of_bytes(total, needed_text), name ? name : "no device", text_of_bytes(available, available_text));
}

/* A device that does not report its free memory counts as having enough. */
static void look_at(const struct engine *engine, uint64_t named, struct placement_device *devices) {
  for (unsigned i = 0; i < engine->device_count; i++) {
    struct opened *opened = &engine->devices[i];
    size_t total, room = SIZE_MAX;
    bool is_open = named & bit(opened->index);
    if (is_open && !device_memory(opened->device, &room, &total)) {
      room = SIZE_MAX;
    }
    devices[i] = (struct placement_device){.is_open = is_open, .load = atomic_load(&opened->load), .room = room};
  }
}

uint64_t engine_placement_bits(const struct engine_placement *placement) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < placement->count; i++) {
    bits |= bit(placement->on[i].number);
  }
  return bits;
}

/* Chooses the least loaded open devices with enough memory. */
static void choose_devices(struct engine *engine, struct placement_device *devices, unsigned wanted, size_t needed,
                           struct engine_placement *placement) {
  unsigned chosen[GPU_MAX_SLOTS];
  for (placement->count = 0; placement->count < wanted; placement->count++) {
    unsigned at = placement_device(devices, engine->device_count, needed);
    if (at == engine->device_count) {
      break;
    }
    struct opened *opened = &engine->devices[at];
    chosen[placement->count] = at;
    devices[at].is_open = false;
    placement->on[placement->count] = (struct flow_device){.number = opened->index,
                                                           .completion = &opened->completion,
                                                           .slowest = &opened->slowest,
                                                           .retry = &engine->retry,
                                                           .device = opened->device,
                                                           .producers = &opened->producers};
  }
  for (unsigned i = 0; i < placement->count; i++) {
    devices[chosen[i]].is_open = true;
  }
}

/* Adds the session's load, and joins its devices if there are several. */
static bool settle_on(struct engine *engine, struct placement_device *devices, struct engine_placement *placement, size_t bytes,
                      size_t needed, struct failure *failure) {
  struct device *members[GPU_MAX_SLOTS];
  struct gpu_error error = {0};
  for (unsigned i = 0; i < placement->count; i++) {
    struct opened *opened = engine_find_opened(engine, placement->on[i].number);
    members[i] = opened->device;
    devices[opened - engine->devices].load += bytes;
    devices[opened - engine->devices].sessions++;
    devices[opened - engine->devices].room -= needed;
    atomic_fetch_add(&opened->load, bytes);
  }
  if (placement->count == 1) {
    placement->device = members[0];
  } else {
    placement->device = device_join(members, placement->count, &error);
  }
  return placement->device || engine_failure(failure, &error);
}

/* Number of devices of a session. Each must get at least one slot. */
static unsigned devices_of_each(const struct config_pipeline *config, uint64_t open) {
  unsigned all = (unsigned)__builtin_popcountll(open);
  unsigned most = config->spread == CONFIG_SPREAD_FRAMES ? config->slots : 1;
  return all < most ? all : most;
}

/* Device memory that a session needs on each of its devices, for its slots there. */
static size_t share_of_each(const struct config_pipeline *config, size_t needed, unsigned each) {
  return each < 2 ? needed : needed / config->slots * ((config->slots + each - 1) / each);
}

bool engine_assign_devices(struct engine *engine, const struct config_pipeline *config, struct engine_placement *placements,
                           unsigned count, size_t bytes, size_t needed, struct failure *failure) {
  struct placement_device devices[ENGINE_MOST_DEVICES];
  const uint64_t out = engine_left_out(engine); /* also one that is still open, but not for the next process */
  uint64_t named = engine_named_by(engine, config), open = 0;
  for (unsigned i = 0; i < engine->device_count; i++) {
    open |= bit(engine->devices[i].index) & named & ~out;
  }
  uint64_t missing = named & ~open & ~out;
  if (missing != 0 || open == 0) {
    return refuse_devices(engine, config, missing != 0 ? missing : named, failure);
  }
  look_at(engine, open, devices);
  const unsigned each = devices_of_each(config, open);
  const size_t needed_each = share_of_each(config, needed, each);
  bool placed = true;
  for (unsigned i = 0; i < count && placed; i++) {
    choose_devices(engine, devices, each, needed_each, &placements[i]);
    placed = placements[i].count > 0
                 ? settle_on(engine, devices, &placements[i], bytes / placements[i].count, needed_each, failure)
                 : refuse_memory(engine, config, open, needed * count, failure);
  }
  return placed;
}

void engine_release_devices(struct engine *engine, const struct engine_placement *placement, size_t bytes) {
  for (unsigned i = 0; i < placement->count; i++) {
    struct opened *opened = engine_find_opened(engine, placement->on[i].number);
    if (opened) {
      atomic_fetch_sub(&opened->load, bytes / placement->count);
    }
  }
  if (placement->count > 1) {
    device_close(placement->device);
  }
}
