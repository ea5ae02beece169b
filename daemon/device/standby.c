/*
 * A worker that stands by: it has opened the device, and is the one that takes the place of a worker that is lost (replace.c).
 * It computes nothing until then. What it must have prepared comes and goes with the configuration, so that who asks for it
 * asks again every few seconds.
 */
#include <string.h>

#include "daemon/device/private.h"
#include "daemon/measure/clock.h"

#define CONTEXT_BYTES ((size_t)525 << 20) /* what a process that has opened a GPU takes of its memory */
#define SHORTEST_NS   (2 * NS_PER_S)      /* after one that could not be had; each further time it is twice as long, */
#define LONGEST_NS    (60 * NS_PER_S)     /* and at most so long */

static enum device_standby decide(const struct device *device, enum device_standby how) {
  const bool is_cpu = strcmp(device->is.backend, "cpu") == 0;
  struct gpu_usage usage;
  size_t available, total;
  if (how == DEVICE_STANDBY_AUTO) {
    how = is_cpu ? DEVICE_STANDBY_OFF : DEVICE_STANDBY_WARM;
  }
  if (is_cpu || how == DEVICE_STANDBY_OFF || device->standby) {
    return how;
  }
  if (!device_memory(device, &available, &total)) {
    return DEVICE_STANDBY_OFF; /* not known yet */
  }
  device_usage(device, &usage);
  available -= available / 10;
  return available < CONTEXT_BYTES                     ? DEVICE_STANDBY_OFF
         : available < CONTEXT_BYTES + usage.allocated ? DEVICE_STANDBY_BARE
                                                       : how;
}

static struct process *begin(const struct device *device, struct gpu_error *error) {
  struct worker_device is;
  struct process *process = process_start(error);
  return process && device_take(device, process, &is, error) ? process : process_release(process);
}

/* With `making`, which keeps the programs and their chains. */
static bool prepare_chains(struct device *device, struct gpu_error *error) {
  bool prepared = true;
  pthread_mutex_lock(&device->making);
  for (const struct device_part *part = device->parts; part && prepared; part = part->next) {
    prepared = chain_warm_on(part->program->chain, device->standby, error);
  }
  pthread_mutex_unlock(&device->making);
  return prepared;
}

static void set_standby(struct device *device, struct process *process, enum device_standby how) {
  device->standby = process;
  atomic_store(&device->standby_is, how);
  atomic_store(&device->standby_pid, process ? process_id(process) : 0);
}

static bool stand_by(struct device *device, enum device_standby how, struct gpu_error *error) {
  if (device->standby &&
      (how == DEVICE_STANDBY_OFF || process_is_lost(device->standby, NULL) || process_is_outdated(device->standby))) {
    struct process *old = device->standby;
    set_standby(device, NULL, DEVICE_STANDBY_OFF);
    process_release(old);
  }
  if (how == DEVICE_STANDBY_OFF || clock_now() < device->standby_due) {
    return true;
  }
  if (!device->standby) {
    set_standby(device, begin(device, error), DEVICE_STANDBY_BARE);
  }
  if (device->standby && (how == DEVICE_STANDBY_BARE || prepare_chains(device, error))) {
    atomic_store(&device->standby_is, how);
    device->standby_pause = 0;
    return true;
  }
  const int64_t pause = 2 * device->standby_pause;
  device->standby_pause = pause < SHORTEST_NS ? SHORTEST_NS : pause < LONGEST_NS ? pause : LONGEST_NS;
  device->standby_due = clock_now() + device->standby_pause;
  return false;
}

bool device_stand_by(struct device *device, enum device_standby how, struct gpu_error *error) {
  bool fine = true;
  if (!device_is_lost(device)) {
    pthread_mutex_lock(&device->standing);
    fine = stand_by(device, decide(device, how), error);
    pthread_mutex_unlock(&device->standing);
  }
  return fine;
}

struct process *standby_take(struct device *device) {
  struct process *process = device->standby;
  set_standby(device, NULL, DEVICE_STANDBY_OFF);
  device->standby_due = 0;
  return process && process_is_lost(process, NULL) ? process_release(process) : process;
}

pid_t device_standing(const struct device *device, enum device_standby *how) {
  *how = atomic_load(&device->standby_is);
  return atomic_load(&device->standby_pid);
}

bool device_can_switch(struct device *device, enum device_standby how) {
  enum device_standby is;
  const bool is_there = device_standing(device, &is) != 0;
  return is_there ? is == decide(device, how) : decide(device, how) == DEVICE_STANDBY_OFF;
}
