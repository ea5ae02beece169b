/*
 * Frames on CUDA streams: one non-blocking stream a slot, four timed events around its steps, and an event more
 * where frames must pass stages with state in order.
 *
 * That a frame is done is known in two ways. Its host function, if it has one, counts up and wakes; functions of
 * earlier frames may still run when asking said DONE and the slot was used again, so a frame is told only when as
 * many have returned as were launched. And its last event can be asked for, which is the only thing that finds a
 * fault: after one, CUDA calls no host function any more.
 */
#include "gpu/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* -- making and freeing ------------------------------------------------------------------------------------------- */

static bool open_slot(struct cuda_program *program, struct cuda_slot *slot, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  cudaEvent_t *const timed[] = {&slot->begin, &slot->copied_in, &slot->computed, &slot->copied_out};
  if (!CUDA_CALL(device, error, cudaStreamCreateWithFlags, &slot->stream, cudaStreamNonBlocking)) {
    return false;
  }
  for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++) {
    if (!CUDA_CALL(device, error, cudaEventCreate, timed[i])) {
      return false;
    }
  }
  return program->base.chain->first_stateful < 0 ||
         CUDA_CALL(device, error, cudaEventCreateWithFlags, &slot->state_done, cudaEventDisableTiming);
}

/* Waits for what is on the stream, host functions included. */
static void close_slot(struct gpu_device *device, struct cuda_slot *slot) {
  struct gpu_error error;
  cudaEvent_t const events[] = {slot->begin, slot->copied_in, slot->computed, slot->copied_out, slot->state_done};
  if (slot->stream) {
    (void)CUDA_CALL(device, &error, cudaStreamSynchronize, slot->stream);
  }
  for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
    if (events[i]) {
      (void)CUDA_CALL(device, &error, cudaEventDestroy, events[i]);
    }
  }
  if (slot->stream) {
    (void)CUDA_CALL(device, &error, cudaStreamDestroy, slot->stream);
  }
}

/* On a dead device nothing is waited for, so a host function may be running still: the program stays until the
 * device is closed. What it has on the device goes with the process. */
static void keep_lost(struct cuda_device *device, struct cuda_program *program) {
  program->next_lost = atomic_load(&device->lost);
  while (!atomic_compare_exchange_weak(&device->lost, &program->next_lost, program)) {
  }
}

void cuda_program_free_lost(struct cuda_device *device) {
  struct cuda_program *program = atomic_exchange(&device->lost, NULL);
  while (program) {
    struct cuda_program *next = program->next_lost;
    free(program);
    program = next;
  }
}

/* Gives everything on the device back; false if it is or becomes dead. */
static bool close_slots(struct cuda_program *program) {
  struct gpu_device *device = program->base.device;
  struct gpu_error error;
  if (gpu_device_is_dead(device, NULL) || !cuda_enter(device, &error)) {
    return false;
  }
  for (unsigned i = 0; i < program->base.slot_count; i++) {
    close_slot(device, &program->slots[i]);
  }
  if (program->memory) {
    (void)CUDA_CALL(device, &error, cudaFree, program->memory);
  }
  return !gpu_device_is_dead(device, NULL);
}

void cuda_program_free(struct gpu_program *base) {
  struct cuda_program *program = (struct cuda_program *)base;
  if (close_slots(program)) {
    free(program);
  } else {
    keep_lost((struct cuda_device *)base->device, program);
  }
}

static bool check_stages(const struct gpu_chain *chain, struct gpu_error *error) {
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_descriptor *stage = chain->plans[i].stage;
    if (!stage->enqueue) {
      gpu_error_set(error, 0, "set gpu.backend to cpu, or leave the stage out", "stages[%u] (%s) has no CUDA kernel", i,
                    stage->name);
      error->stage = (int)i;
      return false;
    }
  }
  return true;
}

static bool fill(struct cuda_program *program, const struct gpu_buffers *slots, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  void *memory = NULL;
  if (!CUDA_CALL(device, error, cudaMalloc, &memory, program->layout.total_bytes)) {
    return false;
  }
  program->memory = memory;
  for (unsigned i = 0; i < program->base.slot_count; i++) {
    struct cuda_slot *slot = &program->slots[i];
    slot->program = program;
    slot->buffers = slots[i];
    slot->memory = program->memory + i * program->layout.slot_bytes;
    if (!open_slot(program, slot, error)) {
      return false;
    }
  }
  return true;
}

struct gpu_program *cuda_program_new(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                     unsigned count, const struct gpu_options *options, struct gpu_error *error) {
  if (!check_stages(chain, error) || !cuda_enter(device, error)) {
    return NULL;
  }
  struct cuda_program *program = calloc(1, sizeof *program + count * sizeof program->slots[0]);
  if (!program) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a program of %u slots", count);
    return NULL;
  }
  gpu_program_init(&program->base, device, chain, count, options);
  chain_layout(chain, true, count, &program->layout);
  if (!fill(program, slots, error)) {
    cuda_program_free(&program->base);
    return NULL;
  }
  return &program->base;
}

bool cuda_program_prepare(struct gpu_program *base, struct gpu_error *error) {
  (void)base, (void)error;
  return true;
}

/* -- submitting --------------------------------------------------------------------------------------------------- */

static void CUDART_CB on_done(void *argument) {
  struct cuda_slot *slot = argument;
  struct cuda_program *program = slot->program;
  atomic_store(&slot->told, gpu_now());
  atomic_fetch_add(&slot->returned, 1);
  /* libuv before 1.53 can lose a wake-up without this fence. */
  atomic_thread_fence(memory_order_seq_cst);
  program->base.options.wake(program->base.options.context);
}

static bool notify(struct gpu_device *device, struct cuda_slot *slot, struct gpu_error *error) {
  if (!CUDA_CALL(device, error, cudaLaunchHostFunc, slot->stream, on_done, slot)) {
    return false;
  }
  slot->launched++;
  slot->notified = true;
  return true;
}

static bool copy_in(struct gpu_device *device, struct cuda_slot *slot, size_t bytes, struct gpu_error *error) {
  return CUDA_CALL(device, error, cudaEventRecord, slot->begin, slot->stream) &&
         CUDA_CALL(device, error, cudaMemcpyAsync, slot->memory + slot->program->layout.buffer[0], slot->buffers.input, bytes,
                   cudaMemcpyHostToDevice, slot->stream) &&
         CUDA_CALL(device, error, cudaEventRecord, slot->copied_in, slot->stream);
}

static unsigned char *state_of(const struct cuda_program *program) {
  return program->memory + program->base.slot_count * program->layout.slot_bytes;
}

/* Lets the stream wait until the frame before has left the state, and empties it where a session begins. */
static bool take_state(struct cuda_program *program, struct cuda_slot *slot, bool restart, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  const struct cuda_slot *before = program->ordered;
  if (before && before != slot && !CUDA_CALL(device, error, cudaStreamWaitEvent, slot->stream, before->state_done, 0)) {
    return false;
  }
  return !restart || CUDA_CALL(device, error, cudaMemsetAsync, state_of(program), 0, program->layout.state_bytes, slot->stream);
}

static bool pass_state(struct cuda_program *program, struct cuda_slot *slot, struct gpu_error *error) {
  program->ordered = slot;
  return CUDA_CALL(program->base.device, error, cudaEventRecord, slot->state_done, slot->stream);
}

static bool run_stage(struct cuda_program *program, struct cuda_slot *slot, unsigned index, bool restart,
                      struct gpu_error *error) {
  const struct chain_layout *layout = &program->layout;
  const struct stage_plan *plan = &program->base.chain->plans[index];
  const struct stage_call call = {
      .input = slot->memory + layout->buffer[index % 2],
      .output = slot->memory + layout->buffer[(index + 1) % 2],
      .state = plan->state_bytes > 0 ? state_of(program) + layout->state[index] : NULL,
      .scratch = plan->scratch_bytes > 0 ? slot->memory + layout->scratch : NULL,
      .sequence = slot->sequence,
      .restart = restart,
  };
  int status = plan->stage->enqueue(plan, &call, slot->stream);
  if (status == cudaSuccess) {
    return true;
  }
  char what[64];
  snprintf(what, sizeof what, "stages[%u] (%s)", index, plan->stage->name);
  cuda_check(program->base.device, (cudaError_t)status, what, error);
  error->stage = (int)index;
  return false;
}

static bool run_stages(struct cuda_program *program, struct cuda_slot *slot, bool restart, struct gpu_error *error) {
  const struct gpu_chain *chain = program->base.chain;
  for (unsigned i = 0; i < chain->length; i++) {
    if (((int)i == chain->first_stateful && !take_state(program, slot, restart, error)) ||
        !run_stage(program, slot, i, restart, error) || ((int)i == chain->last_stateful && !pass_state(program, slot, error))) {
      return false;
    }
  }
  return CUDA_CALL(program->base.device, error, cudaEventRecord, slot->computed, slot->stream);
}

static bool copy_out(struct gpu_device *device, struct cuda_slot *slot, struct gpu_error *error) {
  const struct gpu_chain *chain = slot->program->base.chain;
  const unsigned char *result = slot->memory + slot->program->layout.buffer[chain->length % 2];
  return CUDA_CALL(device, error, cudaMemcpyAsync, slot->buffers.output, result, chain->output_bytes, cudaMemcpyDeviceToHost,
                   slot->stream) &&
         CUDA_CALL(device, error, cudaEventRecord, slot->copied_out, slot->stream);
}

/* A frame that is half on its stream cannot be taken back, so any error here is the device's end. */
bool cuda_submit(struct gpu_program *base, unsigned index, const struct gpu_frame *frame, struct gpu_error *error) {
  struct cuda_program *program = (struct cuda_program *)base;
  struct gpu_device *device = base->device;
  struct cuda_slot *slot = &program->slots[index];
  slot->anchor = cuda_clock_current((struct cuda_device *)device);
  slot->sequence = frame->sequence;
  slot->notified = false;
  slot->timed = false;
  if (cuda_enter(device, error) && copy_in(device, slot, base->chain->input_bytes, error) &&
      run_stages(program, slot, frame->restart, error) && copy_out(device, slot, error) &&
      (!frame->notify || notify(device, slot, error))) {
    return true;
  }
  gpu_device_die(device, error);
  return false;
}

/* -- completion --------------------------------------------------------------------------------------------------- */

enum gpu_progress cuda_told(struct gpu_program *base, unsigned index) {
  const struct cuda_slot *slot = &((struct cuda_program *)base)->slots[index];
  return slot->notified && atomic_load_explicit(&slot->returned, memory_order_acquire) == slot->launched ? GPU_DONE
                                                                                                         : GPU_PENDING;
}

enum gpu_progress cuda_ask(struct gpu_program *base, unsigned index, struct gpu_error *error) {
  const struct cuda_slot *slot = &((struct cuda_program *)base)->slots[index];
  if (!cuda_enter(base->device, error)) {
    gpu_device_die(base->device, error);
    return GPU_DEAD;
  }
  char what[64];
  snprintf(what, sizeof what, "frame %llu in slot %u", (unsigned long long)slot->sequence, index);
  enum gpu_progress progress = cuda_query(base->device, slot->copied_out, what, error);
  if (progress == GPU_DEAD) {
    gpu_device_die(base->device, error);
  }
  return progress;
}

bool cuda_arm(struct gpu_program *base, unsigned index, struct gpu_error *error) {
  struct cuda_slot *slot = &((struct cuda_program *)base)->slots[index];
  if (slot->notified || (cuda_enter(base->device, error) && notify(base->device, slot, error))) {
    return true;
  }
  gpu_device_die(base->device, error);
  return false;
}
