/*
 * A slot's sequence as CUDA graphs: captured once, when its program is made, and replayed for each frame.
 *
 * Buffers, stages and events of a slot never change, so no graph is ever updated. A frame that is enqueued in another way
 * than most is not replayed: the first one of a session where stages have state, and those that a stage names. Copies that
 * are in an order are not part of the graph.
 */
#include "gpu/cuda/cuda.h"

static bool instantiate(const struct cuda_slot *slot, cudaGraph_t graph, cudaGraphExec_t *result, struct gpu_error *error) {
  struct gpu_device *device = slot->program->base.device;
  struct gpu_error other;
  bool made = CUDA_CALL(device, error, cudaGraphInstantiate, result, graph, 0);
  bool freed = CUDA_CALL(device, made ? error : &other, cudaGraphDestroy, graph);
  /* Uploaded now, the first launch on a lane finds it on the device. */
  return made && freed && CUDA_CALL(device, error, cudaGraphUpload, *result, slot->stream);
}

/* A capture that has begun must end, or the stream is of no more use. */
static bool capture(struct cuda_slot *slot, unsigned part, const struct cuda_pass *pass, cudaGraphExec_t *result,
                    struct gpu_error *error) {
  struct gpu_device *device = slot->program->base.device;
  struct gpu_error other;
  cudaGraph_t graph = NULL;
  if (!CUDA_CALL(device, error, cudaStreamBeginCapture, slot->stream, cudaStreamCaptureModeThreadLocal)) {
    return false;
  }
  bool enqueued = cuda_sequence_enqueue(slot, part, pass, error);
  bool ended = CUDA_CALL(device, enqueued ? error : &other, cudaStreamEndCapture, slot->stream, &graph);
  if (enqueued && ended) {
    return instantiate(slot, graph, result, error);
  }
  if (graph) {
    (void)CUDA_CALL(device, &other, cudaGraphDestroy, graph);
  }
  return false;
}

static bool capture_slot(struct cuda_slot *slot, enum cuda_way way, bool timed, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  const struct cuda_pass pass = {.sequence = STAGE_WARM_UP,
                                 .notify = program->base.options.notify,
                                 .timed = timed,
                                 .captured = true,
                                 .copied = way == CUDA_REPLAY_COPIED,
                                 .answers = cuda_graph_answers(program, way, timed, program->base.options.notify)};
  for (unsigned part = 0; part < program->part_count; part++) {
    bool is_captured = !program->parts[part].beside && !cuda_sequence_is_empty(program, part);
    if (is_captured && !capture(slot, part, &pass, &slot->graphs[way][timed][part], error)) {
      return false;
    }
  }
  return true;
}

bool cuda_graph_make(struct cuda_program *program, enum cuda_way way, struct gpu_error *error) {
  const int one_in = program->base.options.timed_one_in;
  for (unsigned i = 0; i < program->base.slot_count; i++) {
    struct cuda_slot *slot = &program->slots[i];
    if ((one_in != 1 && !capture_slot(slot, way, false, error)) ||
        (one_in != GPU_TIMED_NEVER && !capture_slot(slot, way, true, error))) {
      return false;
    }
  }
  return true;
}

static void drop(struct gpu_device *device, struct cuda_slot *slot, enum cuda_way way) {
  struct gpu_error error;
  cudaGraphExec_t *graphs = &slot->graphs[way][0][0];
  for (size_t i = 0; i < sizeof slot->graphs[way] / sizeof graphs[0]; i++) {
    if (graphs[i]) {
      (void)CUDA_CALL(device, &error, cudaGraphExecDestroy, graphs[i]);
      graphs[i] = NULL;
    }
  }
}

void cuda_graph_drop_others(struct gpu_device *device, struct cuda_slot *slot, enum cuda_way way) {
  for (enum cuda_way other = CUDA_REPLAY; other < CUDA_WAYS; other++) {
    if (other != way) {
      drop(device, slot, other);
    }
  }
}

static bool differs(const struct gpu_chain *chain, uint64_t sequence) {
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    if (plan->stage->differs && plan->stage->differs(plan, sequence)) {
      return true;
    }
  }
  return false;
}

enum cuda_way cuda_graph_way(const struct cuda_slot *slot, struct cuda_pass *pass) {
  const struct cuda_program *program = slot->program;
  const struct gpu_chain *chain = program->base.chain;
  pass->differs = program->differs && differs(chain, pass->sequence);
  bool is_captured =
      pass->notify == program->base.options.notify && !(pass->restart && chain->first_stateful >= 0) && !pass->differs;
  return is_captured ? program->way : CUDA_STEPS;
}

/* An event within a graph cannot be asked for, and one behind it costs as much as the frame. */
bool cuda_graph_answers(const struct cuda_program *program, enum cuda_way way, bool timed, bool notify) {
  return program->mailbox && way == CUDA_REPLAY_COPIED && !timed && !notify;
}

bool cuda_graph_launch(struct cuda_slot *slot, unsigned part, const struct cuda_pass *pass, struct gpu_error *error) {
  const struct cuda_program *program = slot->program;
  cudaGraphExec_t graph = slot->graphs[slot->way][pass->timed][part];
  if (program->parts[part].beside) {
    return cuda_sequence_enqueue(slot, part, pass, error);
  }
  bool is_empty = cuda_sequence_is_empty(program, part);
  return (!cuda_sequence_begins_beside(program, part) || cuda_sequence_copy_in(slot, pass, error)) &&
         (is_empty || CUDA_CALL(program->base.device, error, cudaGraphLaunch, graph, slot->stream)) &&
         (!cuda_sequence_ends_beside(program, part) || cuda_sequence_end(slot, pass, error));
}
