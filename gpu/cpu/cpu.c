/*
 * The CPU backend: its device is a pool of workers and the machine's own memory, so that opening, pinning and reading the clock
 * are next to nothing. What its programs do is in cpu_program.c.
 */
#include "gpu/cpu/host.h"
#include "gpu/cpu/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum gpu_progress anchor(struct gpu_device *device, struct gpu_error *error) {
  (void)device;
  (void)error;
  return GPU_DONE; /* its clock is CLOCK_MONOTONIC already */
}

static bool pin(struct gpu_device *device, void *base, size_t bytes, struct gpu_error *error) {
  (void)device;
  (void)base;
  (void)bytes;
  (void)error;
  return true;
}

static void unpin(struct gpu_device *device, void *base, size_t bytes) {
  (void)device;
  (void)base;
  (void)bytes;
}

static void close_device(struct gpu_device *base) {
  struct cpu_device *device = (struct cpu_device *)base;
  pool_free(device->pool);
  free(device);
}

static const struct gpu_backend cpu_backend = {
    .name = "cpu",
    .close = close_device,
    .memory = cpu_host_memory,
    .anchor = anchor,
    .pin = pin,
    .unpin = unpin,
    .program_new = cpu_program_new,
    .prepare = cpu_prepare,
    .program_free = cpu_program_free,
    .submit = cpu_submit,
    .told = cpu_told,
    .ask = cpu_ask,
    .arm = cpu_arm,
    .times = cpu_times,
    .refusal = cpu_refusal,
    .late = cpu_late,
};

/* Room is left for the lanes and their clients; on one or two processors a worker that spins would only be in their way. */
static unsigned spinners(void) {
  unsigned processors = cpu_host_processors();
  return processors > 2 ? (processors - 1) / 2 : 0;
}

struct gpu_device *cpu_open(unsigned index, unsigned workers, struct gpu_error *error) {
#ifdef FRAMED_FAULTS
  if (gpu_fault_has_lost(index)) {
    gpu_error_set(error, ENODEV, "mend it, then framectl device NUMBER resume", "device %u cannot be used: it is broken",
                  index);
    return NULL;
  }
#endif
  struct cpu_device *device = calloc(1, sizeof *device);
  if (!device) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for the CPU backend");
    return NULL;
  }
  device->base.backend = &cpu_backend;
  device->base.node = GPU_NO_NODE;
  device->number = index;
  cpu_host_name(device->base.name);
  workers = workers ? workers : cpu_host_processors();
  device->base.workers = workers;
  int code;
  device->pool = pool_new(workers, spinners(), &code);
  if (!device->pool) {
    char reason[64];
    gpu_error_set(error, code, "raise the limit on threads (ulimit -u, TasksMax=)", "cannot start %u workers: %s", workers,
                  strerror_r(code, reason, sizeof reason));
    free(device);
    return NULL;
  }
  return &device->base;
}
