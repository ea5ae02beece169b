/*
 * Programs on CUDA: one non-blocking stream a slot, the events and graphs of its frames, and an event more where frames
 * must pass stages with state in order. Events and graphs are made once a slot and used for every frame.
 *
 * That a frame is done is known in two ways. Its host function, if it has one, counts up and wakes; functions of
 * earlier frames may still run when asking said DONE and the slot was used again, so a frame is told only when as
 * many have returned as were launched. And its last event, or the stream, can be asked, which is the only thing that
 * finds a fault: after one, CUDA calls no host function any more. A frame that notifies has no such event: it is asked
 * for so rarely that an event a frame would cost more.
 */
#include "gpu/cuda/cuda.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* -- making and freeing ------------------------------------------------------------------------------------------- */

static bool open_slot(struct cuda_program *program, struct cuda_slot *slot, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  cudaEvent_t *const timed[] = {&slot->begin, &slot->copied_in, &slot->computed, &slot->copied_out};
  if (!cuda_stream_new(device, program->base.options.priority, program->share, &slot->stream, error) ||
      !CUDA_CALL(device, error, cudaEventCreateWithFlags, &slot->finished, cudaEventDisableTiming)) {
    return false;
  }
  for (size_t i = 0; i < sizeof timed / sizeof timed[0] && program->base.timed_one_in > 0; i++) {
    if (!CUDA_CALL(device, error, cudaEventCreate, timed[i])) {
      return false;
    }
  }
  return (program->base.chain->first_stateful < 0 ||
          CUDA_CALL(device, error, cudaEventCreateWithFlags, &slot->state_done, cudaEventDisableTiming)) &&
         (!cuda_order_out(&program->base) ||
          CUDA_CALL(device, error, cudaEventCreateWithFlags, &slot->out_done, cudaEventDisableTiming)) &&
         (!program->hands_any || CUDA_CALL(device, error, cudaEventCreateWithFlags, &slot->ready,
                                           program->base.timed_one_in > 0 ? cudaEventDefault : cudaEventDisableTiming));
}

/* Waits for stages that have frames of the program. */
static void await_stages(struct cuda_program *program) {
  const struct timespec nap = {.tv_nsec = 50000};
  bool waits = program->hands_any;
  while (waits && !gpu_device_is_dead(program->base.device, NULL)) {
    nanosleep(&nap, NULL);
    waits = false;
    for (unsigned i = 0; i < program->base.slot_count; i++) {
      waits = waits || atomic_load(&program->slots[i].holder) != CUDA_LANE;
    }
    waits = waits || atomic_load(&program->resuming) > 0;
  }
}

/* Waits for what is on the streams, host functions included. False: something may be running still. */
static bool finish_slots(struct cuda_program *program) {
  struct gpu_error error;
  bool finished = true;
  await_stages(program);
  if (gpu_device_is_dead(program->base.device, NULL)) {
    return false;
  }
  for (unsigned i = 0; i < program->base.slot_count; i++) {
    cudaStream_t stream = program->slots[i].stream;
    finished = (!stream || CUDA_CALL(program->base.device, &error, cudaStreamSynchronize, stream)) && finished;
  }
  return finished;
}

static void close_events(struct gpu_device *device, const cudaEvent_t *events, size_t count) {
  struct gpu_error error;
  for (size_t i = 0; i < count; i++) {
    if (events[i]) {
      (void)CUDA_CALL(device, &error, cudaEventDestroy, events[i]);
    }
  }
}

static void close_slot(struct gpu_device *device, struct cuda_slot *slot) {
  struct gpu_error error;
  cudaEvent_t const events[] = {slot->begin,    slot->copied_in,  slot->computed, slot->copied_out,
                                slot->finished, slot->state_done, slot->out_done, slot->ready};
  cuda_graph_drop_others(device, slot, CUDA_STEPS);
  close_events(device, events, sizeof events / sizeof events[0]);
  close_events(device, slot->model_began, GPU_MAX_STAGES);
  close_events(device, slot->model_ended, GPU_MAX_STAGES);
  if (slot->stream) {
    (void)CUDA_CALL(device, &error, cudaStreamDestroy, slot->stream);
  }
}

/* On a dead device nothing is waited for, and on another one waiting may fail, so a host function may be running still: the
 * program stays until the device is closed. What it has on the device goes with the process. */
static void keep_lost(struct cuda_device *device, struct cuda_program *program) {
  program->next_lost = atomic_load(&device->lost);
  while (!atomic_compare_exchange_weak(&device->lost, &program->next_lost, program)) {
  }
}

void cuda_program_free_lost(struct cuda_device *device) {
  struct cuda_program *program = atomic_exchange(&device->lost, NULL);
  while (program) {
    struct cuda_program *next = program->next_lost;
    free(program->mailbox); /* what it has of the driver's is lost, too */
    free(program);
    program = next;
  }
}

/* Gives everything on the device back; false if something there may still use the program. */
static bool close_slots(struct cuda_program *program) {
  struct gpu_device *device = program->base.device;
  struct gpu_error error;
  if (gpu_device_is_dead(device, NULL) || !cuda_enter(device, &error) || !finish_slots(program)) {
    return false;
  }
  for (unsigned i = 0; i < program->base.slot_count; i++) {
    close_slot(device, &program->slots[i]);
  }
  for (unsigned i = 0; i < program->base.chain->length; i++) {
    if (program->attached[i]) {
      program->base.chain->plans[i].stage->detach(program->attached[i]);
    }
  }
  if (program->memory) {
    (void)CUDA_CALL(device, &error, cudaFree, program->memory);
  }
  cuda_mailbox_close(program); /* after the graphs that know it */
  cuda_share_give_back((struct cuda_device *)device, program->share);
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
                    stage->about->name);
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
  program->share = program->base.options.share > 0 ? cuda_share_take((struct cuda_device *)device, &program->base) : NULL;
  program->base.device_bytes = program->layout.total_bytes;
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

/* The times of a model that is alone in a frame's graph are those of the kernels. */
static bool open_model_events(struct cuda_program *program, unsigned stage, struct gpu_error *error) {
  struct gpu_device *device = program->base.device;
  if (program->base.timed_one_in == 0 || (program->base.chain->length == 1 && !program->beside[stage])) {
    return true;
  }
  for (unsigned i = 0; i < program->base.slot_count; i++) {
    struct cuda_slot *slot = &program->slots[i];
    if (!CUDA_CALL(device, error, cudaEventCreate, &slot->model_began[stage]) ||
        !CUDA_CALL(device, error, cudaEventCreate, &slot->model_ended[stage])) {
      return false;
    }
  }
  return true;
}

/* Gives each stage that needs more than the slots' memory what it needs. */
static bool attach_stages(struct cuda_program *program, struct gpu_error *error) {
  const struct gpu_chain *chain = program->base.chain;
  struct stage_buffers buffers[GPU_MAX_SLOTS];
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    for (unsigned k = 0; k < program->base.slot_count && plan->stage->attach; k++) {
      unsigned char *memory = program->slots[k].memory;
      buffers[k] = (struct stage_buffers){.input = memory + program->layout.buffer[i % 2],
                                          .output = memory + program->layout.buffer[(i + 1) % 2]};
    }
    if (plan->stage->attach) {
      program->attached[i] =
          plan->stage->attach(program->base.device, plan, buffers, program->base.slot_count, &program->beside[i], error);
      if (!program->attached[i]) {
        error->stage = (int)i;
        return false;
      }
    }
    if (plan->stage->about->runs_model && !open_model_events(program, i, error)) {
      return false;
    }
  }
  cuda_sequence_divide(program);
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
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_descriptor *stage = chain->plans[i].stage;
    program->differs = program->differs || stage->differs;
    program->hands[i] = stage->joins && stage->joins(&chain->plans[i]);
    program->hands_any = program->hands_any || program->hands[i];
  }
  if (!fill(program, slots, error) || !attach_stages(program, error)) {
    cuda_program_free(&program->base);
    return NULL;
  }
  return &program->base;
}

/* -- submitting --------------------------------------------------------------------------------------------------- */

/* Lets the stream wait until the frame before has left the state, and empties it where a session begins. */
static bool take_state(const struct cuda_slot *slot, bool restart, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  struct gpu_device *device = program->base.device;
  const struct cuda_slot *before = slot->before;
  if (before && before != slot && !CUDA_CALL(device, error, cudaStreamWaitEvent, slot->stream, before->state_done, 0)) {
    return false;
  }
  unsigned char *state = program->memory + program->base.slot_count * program->layout.slot_bytes;
  return !restart || CUDA_CALL(device, error, cudaMemsetAsync, state, 0, program->layout.state_bytes, slot->stream);
}

static bool pass_state(const struct cuda_slot *slot, struct gpu_error *error) {
  return CUDA_CALL(slot->program->base.device, error, cudaEventRecord, slot->state_done, slot->stream);
}

/* Makes sure that the frame can be found done. An event within a graph cannot be asked for; that of an ordered copy out is in
 * none. */
static bool mark_end(struct cuda_slot *slot, struct gpu_error *error) {
  const struct cuda_pass *pass = &slot->pass;
  slot->notified = pass->notify;
  if (pass->notify || pass->answers) {
    slot->launched += pass->notify;
    slot->last = NULL;
    return true;
  }
  if (pass->timed && (slot->way == CUDA_STEPS || slot->ordered_out)) {
    slot->last = slot->copied_out;
    return true;
  }
  slot->last = slot->finished;
  return CUDA_CALL(slot->program->base.device, error, cudaEventRecord, slot->finished, slot->stream);
}

static bool enqueue_part(struct cuda_slot *slot, unsigned part, struct gpu_error *error) {
  const struct cuda_part *of = &slot->program->parts[part];
  return (!of->takes_state || take_state(slot, slot->pass.restart, error)) &&
         (slot->way != CUDA_STEPS ? cuda_graph_launch(slot, part, &slot->pass, error)
                                  : cuda_sequence_enqueue(slot, part, &slot->pass, error)) &&
         (!of->passes_state || pass_state(slot, error));
}

/* Gives the slot back to its lane, which may have asked to be told meanwhile. What tells of the frame may have come before the
 * lane could see that it has the slot again: then it is woken once more. */
static bool let_go(struct cuda_slot *slot, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  const bool silent = program->base.silent;
  enum cuda_holder holder = CUDA_STAGE;
  bool notified = slot->notified;
  unsigned launched = slot->launched;
  if (atomic_load(&slot->holder) == CUDA_LANE) {
    return true;
  }
  if (!atomic_compare_exchange_strong(&slot->holder, &holder, CUDA_LANE)) {
    if (!notified && !cuda_sequence_notify(slot, slot->stream, error)) {
      return false;
    }
    launched = notified ? launched : ++slot->launched;
    slot->notified = notified = true;
    atomic_store(&slot->holder, CUDA_LANE);
  }
  if (notified && !silent && atomic_load(&slot->returned) == launched) {
    program->base.options.wake(program->base.options.context);
  }
  return true;
}

static void resume(struct stage_call *call);

/* Enqueues the parts from that one on, up to a stage that takes the frame over. */
static bool enqueue(struct cuda_slot *slot, unsigned part, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  for (; part < program->part_count; part++) {
    if (program->parts[part].hands) {
      slot->part = part;
      return cuda_sequence_hand(slot, resume, error);
    }
    if (!enqueue_part(slot, part, error)) {
      return false;
    }
  }
  if (!mark_end(slot, error)) {
    return false;
  }
  stage_count(slot->served, slot->sequence);
  return let_go(slot, error);
}

/* In a thread of the stage's. From the moment in which the lane has its slot again, only the count keeps the program. */
static void resume(struct stage_call *call) {
  struct cuda_slot *slot = (struct cuda_slot *)((unsigned char *)call - offsetof(struct cuda_slot, call));
  struct cuda_program *program = slot->program;
  struct gpu_error error;
  atomic_fetch_add(&program->resuming, 1);
  slot->instance = slot->run.instance;
  slot->served = slot->run.served;
  slot->batch = slot->run.batch;
  if (!enqueue(slot, slot->part + 1, &error)) {
    gpu_device_die(program->base.device, &error);
  }
  atomic_fetch_sub(&program->resuming, 1);
}

/* Where frames come slowly, hardly one would be submitted while all are timed. */
static enum cuda_timing choose_timing(struct cuda_program *program, bool demanded) {
  bool alone = !program->latest || program->latest->seen;
  int64_t now = program->base.timed_one_in > 1 ? gpu_now() : 0;
  bool is_overdue = alone && program->base.timed_one_in > 1 && now - program->timed_at >= GPU_TIMED_OVERDUE_NS;
  enum cuda_timing timing = cuda_clock_timing(&program->base, demanded || is_overdue, alone, now);
  program->timed_at = timing == CUDA_TIMED ? now : program->timed_at;
  return timing;
}

/* A frame that is half on its stream cannot be taken back, so any error here is the device's end. */
bool cuda_submit(struct gpu_program *base, unsigned index, const struct gpu_frame *frame, struct gpu_error *error) {
  struct cuda_program *program = (struct cuda_program *)base;
  struct gpu_device *device = base->device;
  struct cuda_slot *slot = &program->slots[index];
  slot->resident = cuda_mailbox_takes(program, frame);
  if (slot->resident) {
    return cuda_mailbox_submit(slot, frame, error);
  }
  slot->timing = choose_timing(program, frame->timed);
  slot->anchor = cuda_clock_current((struct cuda_device *)device);
  slot->sequence = frame->sequence;
  slot->read = slot->seen = false;
  slot->ordered_out = false;
  slot->before = program->latest;
  slot->pass = (struct cuda_pass){
      .sequence = frame->sequence,
      .restart = frame->restart,
      .again = frame->again,
      .notify = frame->notify,
      .deadline = frame->deadline,
      .timed = slot->timing != CUDA_UNTIMED,
  };
  slot->way = cuda_graph_way(slot, &slot->pass);
  slot->pass.answers = cuda_graph_answers(program, slot->way, slot->pass.timed, frame->notify);
  if (slot->pass.answers) {
    cuda_mailbox_ring(slot);
  }
  atomic_store(&slot->holder, program->hands_any ? CUDA_STAGE : CUDA_LANE);
  if (cuda_enter(device, error) && (!slot->pass.timed || cuda_clock_begin(slot, error)) && enqueue(slot, 0, error)) {
    program->latest = slot;
    return true;
  }
  gpu_device_die(device, error);
  return false;
}

/* -- completion --------------------------------------------------------------------------------------------------- */

enum gpu_progress cuda_ask(struct gpu_program *base, unsigned index, struct gpu_error *error) {
  struct cuda_slot *slot = &((struct cuda_program *)base)->slots[index];
  if (!cuda_enter(base->device, error)) {
    gpu_device_die(base->device, error);
    return GPU_DEAD;
  }
  if (atomic_load_explicit(&slot->holder, memory_order_acquire) != CUDA_LANE) {
    return GPU_PENDING;
  }
  if (slot->resident && !cuda_mailbox_attend(slot, error)) {
    return GPU_DEAD;
  }
  if (slot->pass.answers && !cuda_mailbox_is_to_ask(slot)) {
    return GPU_PENDING;
  }
  cudaError_t status = slot->last ? cudaEventQuery(slot->last) : cudaStreamQuery(cuda_mailbox_stream(slot));
  char what[64] = "";
  if (status != cudaSuccess && status != cudaErrorNotReady) { /* this is polled, and text takes its time */
    if (slot->sequence == STAGE_WARM_UP) {
      snprintf(what, sizeof what, "a frame of the warm-up");
    } else {
      snprintf(what, sizeof what, "frame %llu in slot %u", (unsigned long long)slot->sequence, index);
    }
  }
  enum gpu_progress progress = cuda_progress(base->device, status, what, error);
  if (progress == GPU_DEAD) {
    gpu_device_die(base->device, error);
  } else if (slot->pass.answers) {
    return cuda_told(base, index); /* on a stream that is empty there may be no kernel any more that took the frame */
  }
  slot->seen = progress == GPU_DONE;
  return progress;
}

bool cuda_arm(struct gpu_program *base, unsigned index, struct gpu_error *error) {
  struct cuda_slot *slot = &((struct cuda_program *)base)->slots[index];
  enum cuda_holder holder = CUDA_STAGE;
  if (atomic_compare_exchange_strong(&slot->holder, &holder, CUDA_STAGE_ARMED) || holder == CUDA_STAGE_ARMED ||
      slot->notified) {
    return true;
  }
  if (cuda_enter(base->device, error) &&
      (slot->resident ? cuda_mailbox_arm(slot, error) : cuda_sequence_notify(slot, slot->stream, error))) {
    slot->launched++;
    slot->notified = true;
    return true;
  }
  gpu_device_die(base->device, error);
  return false;
}
