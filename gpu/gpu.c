/*
 * The front of both backends: what a caller asks of a device and of a program, passed on to the backend that the device has.
 *
 * Once a device is dead, every call that can fail says so with the first cause, and no backend is asked to start
 * anything on it.
 */
#include "gpu/backend.h"

#include <string.h>

/* -- the device --------------------------------------------------------------------------------------------------- */

void gpu_calibration(const struct gpu_device *device, struct gpu_calibration *calibration) {
  *calibration = device->calibration;
  memcpy(calibration->address, device->address, sizeof calibration->address);
}

struct gpu_device *gpu_close(struct gpu_device *device) {
  if (device) {
    device->backend->close(device);
  }
  return NULL;
}

const char *gpu_backend_name(const struct gpu_device *device) { return device->backend->name; }

const char *gpu_device_name(const struct gpu_device *device) { return device->name; }

const char *gpu_device_address(const struct gpu_device *device) { return device->address; }

int gpu_node(const struct gpu_device *device) { return device->node; }

unsigned gpu_kernels_at_once(const struct gpu_device *device) { return device->workers > 0 ? device->workers : 1; }

bool gpu_memory(const struct gpu_device *device, size_t *available, size_t *total) {
  return !gpu_device_is_dead(device, NULL) && device->backend->memory(device, available, total);
}

enum gpu_progress gpu_anchor(struct gpu_device *device, struct gpu_error *error) {
  return gpu_device_is_dead(device, error) ? GPU_DEAD : device->backend->anchor(device, error);
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
    device->backend->unpin(device, base, bytes);
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

static bool begin_stages(struct gpu_program *program, struct gpu_error *error) {
  bool on_cuda = program->device->workers == 0;
  for (unsigned i = 0; i < program->chain->length; i++) {
    const struct stage_plan *plan = &program->chain->plans[i];
    char problem[STAGE_TEXT] = "";
    if (plan->stage->begin && !(program->sessions[i] = plan->stage->begin(plan, on_cuda, problem))) {
      gpu_error_set(error, 0, plan->remedy, "stages[%u] (%s): %s", i, plan->stage->about->name, problem);
      error->stage = (int)i;
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
  if (!chain_runs(chain, device->workers == 0, error)) {
    return NULL;
  }
  struct gpu_program *program = device->backend->program_new(device, chain, slots, count, options, error);
  if (program) {
    atomic_fetch_add_explicit(&device->allocated, program->device_bytes, memory_order_relaxed);
  }
  bool begun = program && begin_stages(program, error);
  return begun ? program : gpu_program_free(program);
}

bool gpu_program_graph(const struct gpu_program *program) { return program->graph; }

bool gpu_program_copies_by_kernel(const struct gpu_program *program) { return program->copies_by_kernel; }

void gpu_program_measured(const struct gpu_program *program, struct gpu_measured *measured) { *measured = program->measured; }

void gpu_program_share(const struct gpu_program *program, struct gpu_share *share) { *share = program->share; }

void gpu_program_costs(const struct gpu_program *program, struct gpu_costs *costs) { *costs = program->costs; }

unsigned gpu_program_timed_one_in(const struct gpu_program *program) { return program->timed_one_in; }

bool gpu_program_is_rung(const struct gpu_program *program) { return program->is_rung; }

struct gpu_program *gpu_program_free(struct gpu_program *program) {
  if (program) {
    const struct gpu_program last = *program; /* the backend may free it, or keep it for what still runs on a dead device */
    atomic_fetch_sub_explicit(&program->device->allocated, program->device_bytes, memory_order_relaxed);
    program->device->backend->program_free(program);
    for (unsigned i = 0; i < last.chain->length; i++) {
      if (last.sessions[i]) {
        last.chain->plans[i].stage->end(&last.chain->plans[i], last.sessions[i]);
      }
    }
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

const char *gpu_refusal(struct gpu_program *program, unsigned slot) {
  return program->device->backend->refusal ? program->device->backend->refusal(program, slot) : NULL;
}

bool gpu_late(struct gpu_program *program, unsigned slot) {
  return program->device->backend->late && program->device->backend->late(program, slot);
}

bool gpu_arm(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  return !gpu_device_is_dead(program->device, error) && program->device->backend->arm(program, slot, error);
}

enum gpu_progress gpu_attend(struct gpu_program *program, struct gpu_error *error) {
  return gpu_device_is_dead(program->device, error) ? GPU_DEAD : program->device->backend->attend(program, error);
}

bool gpu_times(struct gpu_program *program, unsigned slot, struct gpu_times *times) {
  return program->device->backend->times(program, slot, times);
}
