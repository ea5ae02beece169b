/*
 * What one frame is on its stream, step by step: copy in, stages, copy out, and the host function that tells of it.
 *
 * The same steps run at once or are captured into a graph. Around them are events where the frame is timed; those of a
 * graph are external, so that they are recorded anew at each launch, as outside of graphs. A copy that is in an order waits
 * for another slot's, which nothing in a graph can: it stays beside the graph, with what comes before it or after it.
 */
#include "gpu/cuda/cuda.h"

#include <stdio.h>

static void add_part(struct cuda_program *program, unsigned from, unsigned to) {
  const struct gpu_chain *chain = program->base.chain;
  program->parts[program->part_count++] = (struct cuda_part){
      .from = from,
      .to = to,
      .takes_state = to > from && (int)from == chain->first_stateful,
      .passes_state = to > from && (int)to == chain->last_stateful + 1,
      .beside = to > from && program->beside[from],
      .hands = to > from && program->hands[from],
  };
}

void cuda_sequence_divide(struct cuda_program *program) {
  const struct gpu_chain *chain = program->base.chain;
  bool cut[GPU_MAX_STAGES + 1] = {false};
  unsigned from = 0;
  if (chain->first_stateful >= 0) {
    cut[chain->first_stateful] = cut[chain->last_stateful + 1] = true;
  }
  for (unsigned i = 0; i < chain->length; i++) {
    cut[i] = cut[i] || program->beside[i];
    cut[i + 1] = cut[i + 1] || program->beside[i];
  }
  program->part_count = 0;
  for (unsigned i = 0; i <= chain->length; i++) {
    if (cut[i]) {
      add_part(program, from, i);
      from = i;
    }
  }
  add_part(program, from, chain->length);
}

static bool record(const struct cuda_slot *slot, cudaEvent_t event, const struct cuda_pass *pass, struct gpu_error *error) {
  struct gpu_device *device = slot->program->base.device;
  if (!pass->timed) {
    return true;
  }
  return pass->captured ? CUDA_CALL(device, error, cudaEventRecordWithFlags, event, slot->stream, cudaEventRecordExternal)
                        : CUDA_CALL(device, error, cudaEventRecord, event, slot->stream);
}

static bool copy(const struct cuda_slot *slot, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                 const struct cuda_pass *pass, struct gpu_error *error) {
  struct gpu_device *device = slot->program->base.device;
  if (pass->captured && pass->copied) {
    return cuda_check(device, (cudaError_t)cuda_copy(to, from, bytes, slot->stream), "a kernel's copy", error);
  }
  return CUDA_CALL(device, error, cudaMemcpyAsync, to, from, bytes, kind, slot->stream);
}

bool cuda_sequence_copy_in(const struct cuda_slot *slot, const struct cuda_pass *pass, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  bool ordered = cuda_order_in(&program->base);
  unsigned ticket = 0;
  return (!ordered || cuda_order_begin_in(slot, &ticket, error)) &&
         copy(slot, slot->memory + program->layout.input, slot->buffers.input, program->base.chain->input_bytes,
              cudaMemcpyHostToDevice, pass, error) &&
         record(slot, slot->copied_in, pass, error) && (!ordered || cuda_order_end_in(slot, ticket, error));
}

static struct stage_call make_call(struct cuda_slot *slot, unsigned index, const struct cuda_pass *pass,
                                   struct stage_run *run) {
  const struct cuda_program *program = slot->program;
  const struct chain_layout *layout = &program->layout;
  const struct stage_plan *plan = &program->base.chain->plans[index];
  unsigned char *state = program->memory + program->base.slot_count * layout->slot_bytes + layout->state[index];
  *run = (struct stage_run){.began = pass->timed ? slot->model_began[index] : NULL,
                            .ended = pass->timed ? slot->model_ended[index] : NULL};
  return (struct stage_call){
      .input = slot->memory + (index == 0 ? layout->input : layout->buffer[index % 2]),
      .output = slot->memory + layout->buffer[(index + 1) % 2],
      .source = program->base.chain->takes_source ? slot->memory + layout->input : NULL,
      .state = plan->state_bytes > 0 ? state : NULL,
      .scratch = plan->scratch_bytes > 0 ? slot->memory + layout->scratch : NULL,
      .session = program->base.sessions[index],
      .sequence = pass->sequence,
      .restart = pass->restart,
      .again = pass->again,
      .priority = program->base.options.priority,
      .attached = program->attached[index],
      .slot = (unsigned)(slot - program->slots),
      .run = run,
  };
}

bool cuda_sequence_hand(struct cuda_slot *slot, void (*resume)(struct stage_call *call), struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  const unsigned index = program->parts[slot->part].from;
  slot->call = make_call(slot, index, &slot->pass, &slot->run);
  slot->call.deadline = slot->pass.deadline;
  slot->call.stream = slot->stream;
  slot->call.ready = slot->ready;
  slot->call.resume = resume;
  if (!CUDA_CALL(program->base.device, error, cudaEventRecord, slot->ready, slot->stream)) {
    return false;
  }
  program->base.chain->plans[index].stage->hand(&slot->call);
  return true;
}

static bool run_stage(struct cuda_slot *slot, unsigned index, const struct cuda_pass *pass, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  const struct stage_plan *plan = &program->base.chain->plans[index];
  struct stage_run run;
  const struct stage_call call = make_call(slot, index, pass, &run);
  int status = plan->stage->enqueue(plan, &call, slot->stream);
  slot->instance = run.instance > 0 ? run.instance : slot->instance;
  slot->served = run.instance > 0 ? run.served : slot->served;
  if (status == cudaSuccess) {
    return true;
  }
  char what[64];
  snprintf(what, sizeof what, "stages[%u] (%s)", index, plan->stage->about->name);
  cuda_check(program->base.device, (cudaError_t)status, what, error);
  error->stage = (int)index;
  return false;
}

bool cuda_sequence_stages(struct cuda_slot *slot, const struct cuda_pass *pass, struct gpu_error *error) {
  for (unsigned i = 0; i < slot->program->base.chain->length; i++) {
    if (!run_stage(slot, i, pass, error)) {
      return false;
    }
  }
  return true;
}

static bool copy_out(struct cuda_slot *slot, const struct cuda_pass *pass, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  const struct gpu_chain *chain = program->base.chain;
  const unsigned char *result = slot->memory + program->layout.buffer[chain->length % 2];
  bool ordered = cuda_order_out(&program->base);
  return record(slot, slot->computed, pass, error) && (!ordered || cuda_order_begin_out(slot, error)) &&
         copy(slot, slot->buffers.output, result, chain->output_bytes, cudaMemcpyDeviceToHost, pass, error) &&
         record(slot, slot->copied_out, pass, error) && (!ordered || cuda_order_end_out(slot, error));
}

static void CUDART_CB on_done(void *argument) {
  struct cuda_slot *slot = argument;
  struct cuda_program *program = slot->program;
  bool silent = program->base.silent; /* read before anybody can know that the frame is done */
  atomic_store(&slot->told, gpu_now());
  atomic_fetch_add(&slot->returned, 1);
  /* libuv before 1.53 can lose a wake-up without this fence. */
  atomic_thread_fence(memory_order_seq_cst);
  if (!silent) {
    program->base.options.wake(program->base.options.context);
  }
}

bool cuda_sequence_notify(struct cuda_slot *slot, cudaStream_t stream, struct gpu_error *error) {
  return CUDA_CALL(slot->program->base.device, error, cudaLaunchHostFunc, stream, on_done, slot);
}

bool cuda_sequence_end(struct cuda_slot *slot, const struct cuda_pass *pass, struct gpu_error *error) {
  return copy_out(slot, pass, error) && (!pass->notify || cuda_sequence_notify(slot, slot->stream, error)) &&
         (!pass->answers || cuda_mailbox_enqueue(slot, error));
}

static bool is_last(const struct cuda_program *program, unsigned part) { return part + 1 == program->part_count; }

bool cuda_sequence_begins_beside(const struct cuda_program *program, unsigned part) {
  return part == 0 && cuda_order_in(&program->base);
}

bool cuda_sequence_ends_beside(const struct cuda_program *program, unsigned part) {
  return is_last(program, part) && cuda_order_out(&program->base);
}

bool cuda_sequence_is_empty(const struct cuda_program *program, unsigned part) {
  bool copies_in = part == 0 && !cuda_order_in(&program->base);
  bool copies_out = is_last(program, part) && !cuda_order_out(&program->base);
  return program->parts[part].from == program->parts[part].to && !copies_in && !copies_out;
}

bool cuda_sequence_enqueue(struct cuda_slot *slot, unsigned part, const struct cuda_pass *pass, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  bool begins = part == 0 && !(pass->captured && cuda_sequence_begins_beside(program, part));
  bool ends = is_last(program, part) && !(pass->captured && cuda_sequence_ends_beside(program, part));
  if (begins && !cuda_sequence_copy_in(slot, pass, error)) {
    return false;
  }
  for (unsigned i = program->parts[part].from; i < program->parts[part].to; i++) {
    if (!run_stage(slot, i, pass, error)) {
      return false;
    }
  }
  return !ends || cuda_sequence_end(slot, pass, error);
}

enum gpu_progress cuda_told(struct gpu_program *base, unsigned index) {
  struct cuda_slot *slot = &((struct cuda_program *)base)->slots[index];
  if (atomic_load_explicit(&slot->holder, memory_order_acquire) != CUDA_LANE) {
    return GPU_PENDING;
  }
  bool is_done = slot->pass.answers
                     ? cuda_mailbox_answered(slot)
                     : slot->notified && atomic_load_explicit(&slot->returned, memory_order_acquire) == slot->launched;
  slot->seen = slot->seen || is_done;
  return is_done ? GPU_DONE : GPU_PENDING;
}
