/*
 * Another worker in the place of one that is lost: the one that stands by, or a new one. It opens the device, maps the memory
 * that is registered with it, and makes the parts of programs that are there. What the daemon holds of them, lanes and
 * pipelines go on with.
 */
#include "daemon/device/private.h"

static bool take_up(struct device *device, struct process *process, struct process *old, bool is_open,
                    struct gpu_error *error) {
  struct worker_device is; /* what is known of the device stays, since others read it */
  bool taken = is_open || device_take(device, process, &is, error);
  for (struct device_arena *arena = device->arenas; arena && taken; arena = arena->next) {
    taken = arena_send(device, process, arena, error);
  }
  if (!process_is_stopped(old)) {
    process_await_end(old); /* until then it may write into slots */
  }
  for (unsigned i = 0; i <= DEVICE_MOST_LANES; i++) { /* each is opened again with its first program */
    if (device->lines[i]) {
      device_drop_line(&device->retired[i]);
      device->retired[i] = device->lines[i];
      device->lines[i] = NULL;
    }
  }
  for (struct device_part *part = device->parts; part && taken; part = part->next) {
    taken = part_make(part, error);
  }
  return taken;
}

/* `making` keeps the lists as they are; lanes use none of it before the device is no longer lost. */
bool device_replace(struct device *device, struct gpu_error *error) {
  bool taken = false;
  pthread_mutex_lock(&device->standing);
  pthread_mutex_lock(&device->making);
  struct process *old = device->process, *standby = standby_take(device);
  struct process *process = standby ? standby : process_start(error);
  if (process) {
    pthread_mutex_lock(&device->lock);
    device->process = process;
    pthread_mutex_unlock(&device->lock);
    taken = take_up(device, process, old, standby != NULL, error);
  }
  if (process && !taken) {
    process_kill(process, error);
  }
  if (taken) {
    device_calm(device);
    atomic_store(&device->lost, false);
    device_watch(device);
  }
  pthread_mutex_unlock(&device->making);
  pthread_mutex_unlock(&device->standing);
  device_wake_lanes(device);
  if (process) {
    process_release(old);
  }
  return taken;
}
