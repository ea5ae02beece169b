/*
 * The front of both backends: which one is opened, what a device died of, and what needs no device at all.
 *
 * Once a device is dead, every call that can fail says so with the first cause, and no backend is asked to start
 * anything on it.
 */
#include "gpu/backend.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* -- opening ------------------------------------------------------------------------------------------------------ */

bool gpu_nvidia_present(const char *directory) {
  static const char *const nodes[] = {"nvidiactl", "nvidia0"};
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, nodes[i]);
    if (access(path, F_OK) == 0) {
      return true;
    }
  }
  return false;
}

int gpu_pci_node(const char *directory, const char *address) {
  char path[512], line[32] = "";
  snprintf(path, sizeof path, "%s/%s/numa_node", directory, address);
  FILE *file = fopen(path, "re");
  if (!file) {
    return GPU_NO_NODE;
  }
  char *end = line;
  long node = fgets(line, sizeof line, file) ? strtol(line, &end, 10) : GPU_NO_NODE;
  fclose(file);
  return end == line || node < 0 || node > INT_MAX ? GPU_NO_NODE : (int)node;
}

#ifndef FRAMED_CUDA
static void cuda_expect(unsigned slots) { (void)slots; }

static bool cuda_usable(unsigned index, struct gpu_error *error) {
  gpu_error_set(error, 0, "build it again where nvcc (CUDA 13) is installed, or set gpu.backend to cpu",
                "device %u cannot be used: this build of framed has no CUDA backend", index);
  error->no_device = true;
  return false;
}

static struct gpu_device *cuda_open(unsigned index, const struct gpu_calibration *known, struct gpu_error *error) {
  (void)known;
  (void)cuda_usable(index, error);
  return NULL;
}
#endif

void gpu_expect(unsigned slots) { cuda_expect(slots); }

static bool is_cuda(enum gpu_backend_choice choice) {
  return choice == GPU_BACKEND_CUDA || (choice == GPU_BACKEND_AUTO && gpu_nvidia_present("/dev"));
}

bool gpu_usable(enum gpu_backend_choice choice, unsigned index, struct gpu_error *error) {
  return !is_cuda(choice) || cuda_usable(index, error);
}

struct gpu_device *gpu_open_calibrated(enum gpu_backend_choice choice, unsigned index, unsigned workers,
                                       const struct gpu_calibration *known, struct gpu_error *error) {
  return is_cuda(choice) ? cuda_open(index, known, error) : cpu_open(workers, error);
}

struct gpu_device *gpu_open(enum gpu_backend_choice choice, unsigned index, unsigned workers, struct gpu_error *error) {
  return gpu_open_calibrated(choice, index, workers, NULL, error);
}

void gpu_calibration(const struct gpu_device *device, struct gpu_calibration *calibration) {
  *calibration = device->calibration;
}

struct gpu_device *gpu_close(struct gpu_device *device) {
  if (device) {
    device->backend->close(device);
  }
  return NULL;
}

const char *gpu_backend_name(const struct gpu_device *device) { return device->backend->name; }

const char *gpu_device_name(const struct gpu_device *device) { return device->name; }

int gpu_node(const struct gpu_device *device) { return device->node; }

unsigned gpu_kernels_at_once(const struct gpu_device *device) { return device->workers > 0 ? device->workers : 1; }

bool gpu_memory(const struct gpu_device *device, size_t *available, size_t *total) {
  return !gpu_device_is_dead(device, NULL) && device->backend->memory(device, available, total);
}

/* -- errors and death ---------------------------------------------------------------------------------------------- */

bool gpu_error_set(struct gpu_error *error, int code, const char *remedy, const char *format, ...) {
  *error = (struct gpu_error){.code = code, .stage = -1};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  snprintf(error->remedy, sizeof error->remedy, "%s", remedy ? remedy : "");
  return false;
}

void gpu_device_die(struct gpu_device *device, const struct gpu_error *error) {
  enum gpu_condition alive = GPU_ALIVE;
  if (atomic_compare_exchange_strong(&device->condition, &alive, GPU_DYING)) {
    device->cause = *error;
    atomic_store(&device->condition, GPU_LOST);
  }
}

bool gpu_device_is_dead(const struct gpu_device *device, struct gpu_error *error) {
  if (atomic_load_explicit(&device->condition, memory_order_acquire) != GPU_LOST) {
    return false;
  }
  if (error) {
    *error = device->cause;
  }
  return true;
}

bool gpu_is_lost(const struct gpu_device *device) { return gpu_device_is_dead(device, NULL); }

void gpu_abandon(struct gpu_device *device, const char *reason) {
  struct gpu_error error;
  gpu_error_set(&error, 0, NULL, "%s", reason);
  gpu_device_die(device, &error);
}

/* -- the device --------------------------------------------------------------------------------------------------- */

bool gpu_anchor(struct gpu_device *device, struct gpu_error *error) {
  return !gpu_device_is_dead(device, error) && device->backend->anchor(device, error);
}

bool gpu_pin(struct gpu_device *device, void *base, size_t bytes, struct gpu_error *error) {
  if (gpu_device_is_dead(device, error) || !device->backend->pin(device, base, bytes, error)) {
    return false;
  }
  atomic_fetch_add_explicit(&device->pinned, bytes, memory_order_relaxed);
  return true;
}

void gpu_unpin(struct gpu_device *device, void *base, size_t bytes) {
  if (!gpu_device_is_dead(device, NULL)) {
    device->backend->unpin(device, base);
  }
  atomic_fetch_sub_explicit(&device->pinned, bytes, memory_order_relaxed);
}

void gpu_usage(const struct gpu_device *device, struct gpu_usage *usage) {
  usage->pinned = atomic_load_explicit(&device->pinned, memory_order_relaxed);
  usage->allocated = atomic_load_explicit(&device->allocated, memory_order_relaxed);
}

/* -- programs ----------------------------------------------------------------------------------------------------- */

static bool buffers_aligned(const struct gpu_buffers *slots, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    if ((uintptr_t)slots[i].input % GPU_ALIGNMENT != 0 || (uintptr_t)slots[i].output % GPU_ALIGNMENT != 0) {
      return false;
    }
  }
  return true;
}

struct gpu_program *gpu_program_new(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                    unsigned count, const struct gpu_options *options, struct gpu_error *error) {
  if (gpu_device_is_dead(device, error)) {
    return NULL;
  }
  if (count == 0 || count > GPU_MAX_SLOTS) {
    gpu_error_set(error, 0, NULL, "a program takes 1 to %d slots, not %u", GPU_MAX_SLOTS, count);
    return NULL;
  }
  if (!buffers_aligned(slots, count)) {
    gpu_error_set(error, 0, NULL, "the buffers of a slot are not aligned to %d bytes", GPU_ALIGNMENT);
    return NULL;
  }
  struct gpu_program *program = device->backend->program_new(device, chain, slots, count, options, error);
  if (program) {
    atomic_fetch_add_explicit(&device->allocated, program->device_bytes, memory_order_relaxed);
  }
  return program;
}

void gpu_program_init(struct gpu_program *program, struct gpu_device *device, const struct gpu_chain *chain, unsigned count,
                      const struct gpu_options *options) {
  unsigned one_in = options->timed_one_in > 0 ? (unsigned)options->timed_one_in : 1;
  *program = (struct gpu_program){
      .device = device,
      .chain = chain,
      .slot_count = count,
      .options = *options,
      .timed_one_in = options->timed_one_in == GPU_TIMED_NEVER ? 0 : one_in,
  };
}

bool gpu_program_graph(const struct gpu_program *program) { return program->graph; }

bool gpu_program_copies_by_kernel(const struct gpu_program *program) { return program->copies_by_kernel; }

void gpu_program_measured(const struct gpu_program *program, struct gpu_measured *measured) { *measured = program->measured; }

void gpu_program_costs(const struct gpu_program *program, struct gpu_costs *costs) { *costs = program->costs; }

unsigned gpu_program_timed_one_in(const struct gpu_program *program) { return program->timed_one_in; }

struct gpu_program *gpu_program_free(struct gpu_program *program) {
  if (program) {
    atomic_fetch_sub_explicit(&program->device->allocated, program->device_bytes, memory_order_relaxed);
    program->device->backend->program_free(program);
  }
  return NULL;
}

bool gpu_submit(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error) {
  return !gpu_device_is_dead(program->device, error) && program->device->backend->submit(program, slot, frame, error);
}

enum gpu_progress gpu_told(struct gpu_program *program, unsigned slot) { return program->device->backend->told(program, slot); }

enum gpu_progress gpu_ask(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  enum gpu_progress progress = gpu_told(program, slot);
  if (progress == GPU_DONE) {
    return GPU_DONE;
  }
  if (gpu_device_is_dead(program->device, error)) {
    return GPU_DEAD;
  }
  return program->device->backend->ask(program, slot, error);
}

bool gpu_arm(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  return !gpu_device_is_dead(program->device, error) && program->device->backend->arm(program, slot, error);
}

bool gpu_times(struct gpu_program *program, unsigned slot, struct gpu_times *times) {
  return program->device->backend->times(program, slot, times);
}

/* Waits for one warm-up frame by asking, with naps, since no lane is in a hurry yet. */
static bool warm_up_slot(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = STAGE_WARM_UP, .restart = true};
  const struct timespec nap = {.tv_nsec = 50000};
  if (!gpu_submit(program, slot, &frame, error)) {
    return false;
  }
  int64_t limit = gpu_now() + GPU_WARM_UP_LIMIT_NS;
  for (;;) {
    enum gpu_progress progress = gpu_ask(program, slot, error);
    if (progress != GPU_PENDING) {
      return progress == GPU_DONE;
    }
    if (gpu_now() > limit) {
      gpu_abandon(program->device, GPU_WARM_UP_HANGS);
    }
    nanosleep(&nap, NULL);
  }
}

bool gpu_program_warm_up(struct gpu_program *program, struct gpu_error *error) {
  for (unsigned slot = 0; slot < program->slot_count; slot++) {
    bool is_spared = (program->options.spared & 1U << slot) != 0;
    if (!is_spared && !warm_up_slot(program, slot, error)) {
      return false;
    }
  }
  bool weighs = program->options.weigh && program->options.spared == 0;
  program->silent = true;
  bool ready = program->device->backend->prepare(program, error) && (!weighs || gpu_costs_measure(program, error));
  program->silent = false;
  return ready;
}
