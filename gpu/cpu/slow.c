#include "gpu/cpu/slow.h"

#ifdef FRAMED_FAULTS

#include <errno.h>
#include <stdlib.h>

#define NS_PER_MS INT64_C(1000000)

static const struct gpu_backend *quick;
static struct gpu_backend slow;

static void rest(int64_t ns) {
  struct timespec left = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

static void slow_close(struct gpu_device *device) {
  rest(100 * NS_PER_MS);
  quick->close(device);
}

static bool slow_pin(struct gpu_device *device, void *base, size_t bytes, struct gpu_error *error) {
  rest(2 * NS_PER_MS);
  return quick->pin(device, base, bytes, error);
}

static void slow_unpin(struct gpu_device *device, void *base, size_t bytes) {
  quick->unpin(device, base, bytes);
  rest(2 * NS_PER_MS);
}

static struct gpu_program *slow_program_new(struct gpu_device *device, const struct gpu_chain *chain,
                                            const struct gpu_buffers *slots, unsigned count, const struct gpu_options *options,
                                            struct gpu_error *error) {
  rest(10 * NS_PER_MS);
  return quick->program_new(device, chain, slots, count, options, error);
}

static void slow_program_free(struct gpu_program *program) {
  quick->program_free(program);
  rest(25 * NS_PER_MS);
}

/* On a lane, which must not sleep. */
static bool slow_submit(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error) {
  int64_t end = gpu_now() + 10000;
  while (gpu_now() < end) {
  }
  return quick->submit(program, slot, frame, error);
}

void cpu_slow_make(struct gpu_device *device) {
  if (!getenv("FRAMED_FAULT_SLOW_DEVICE")) {
    return;
  }
  quick = device->backend;
  slow = *quick;
  slow.close = slow_close;
  slow.pin = slow_pin;
  slow.unpin = slow_unpin;
  slow.program_new = slow_program_new;
  slow.program_free = slow_program_free;
  slow.submit = slow_submit;
  device->backend = &slow;
  rest(200 * NS_PER_MS);
}

#endif
