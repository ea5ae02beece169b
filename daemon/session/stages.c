/*
 * The programs of a session: that of the stages in force, and their replacement by other stages while the producer and all
 * frames stay.
 *
 * A set-up thread prepares the new program in the memory of the slots, without a warm-up frame. The choices of a warm-up were
 * measured in other memory before. Then the lane gets an order. It dispatches no frame until none is on the device, so that
 * frames keep their order, and switches the program in the same turn.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/device/formats.h"
#include "daemon/session/private.h"

/* -- programs ------------------------------------------------------------------------------------------------------ */

/* The choices of the first warm-up hold for all programs of these stages. */
static void keep_choices(struct session_stages *stages) {
  const struct worker_ready *ready = device_program_ready(stages->program);
  stages->graph = ready->graph ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  stages->copy = ready->copies_by_kernel ? GPU_COPY_KERNEL : GPU_COPY_ENGINE;
  stages->timed_one_in = (int)ready->timed_one_in;
  if (stages->costs.alone == 0) {
    stages->costs = ready->costs;
  }
}

/* On failure the caller frees what was made. */
static bool stages_make(struct session *session, struct session_stages *stages, const struct gpu_buffers *buffers,
                        unsigned spared, struct failure *failure) {
  const struct session_setup *setup = &session->setup;
  struct gpu_error error = {0};
  const struct gpu_options options = {
      .notify = !session->flow.spin,
      .graph = stages->graph,
      .copy = stages->copy,
      .timed_one_in = stages->timed_one_in,
      .spared = spared,
      .priority = formats_priority(setup->config->priority),
      .resident = setup->config->completion == CONFIG_COMPLETION_PERSISTENT,
      .linger_ns = setup->config->spin_for_ns,
      .share = setup->config->share,
      .owner = setup->config->name,
      .weigh = stages->costs.alone == 0,
  };
  const struct device_caller caller = {.lane = setup->lane, .runner = &session->runner};
  stages->program =
      device_program_new(setup->device, stages->chain, buffers, session->flow.ring.count, &options, true, &caller, &error);
  if (!stages->program) {
    return device_failure(failure, &error, "pipeline '%s'", setup->config->name);
  }
  return true;
}

static void find_buffers(const struct session *session, struct gpu_buffers *buffers) {
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    const struct slot *slot = &session->flow.ring.slots[i];
    buffers[i] = (struct gpu_buffers){.input = slot->input, .output = slot->output};
  }
}

/* Clears the free slots. Warm-up frames use them, and the input of a quarantined frame would break the device again. */
static void clear_quarantined(struct session *session) {
  const struct flow *flow = &session->flow;
  for (unsigned i = 0; i < flow->ring.count && session->quarantined > 0; i++) {
    if (flow->ring.slots[i].state == SLOT_FREE) {
      memset(flow->ring.slots[i].input, 0, flow->input_bytes);
    }
  }
}

/* A bit for each slot that warm-up frames must not touch: it holds a result or, with foreign code in the chain, any frame. */
unsigned session_spared(const struct session *session) {
  const bool is_foreign = device_chain_record(session_stages(session)->chain)->is_foreign;
  unsigned spared = 0;
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    enum slot_state state = session->flow.ring.slots[i].state;
    bool has_result = state == SLOT_DONE || state == SLOT_EMITTING;
    spared |= has_result || (is_foreign && state != SLOT_FREE) ? 1U << i : 0;
  }
  return spared;
}

bool session_make_program(struct session *session, struct failure *failure) {
  struct session_stages *stages = &session->stages[session->in_force % 2];
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  find_buffers(session, buffers);
  clear_quarantined(session);
  bool made = stages_make(session, stages, buffers, session_spared(session), failure);
  session->flow.program = stages->program;
  return made;
}

void session_keep_choices(struct session *session) { keep_choices(&session->stages[session->in_force % 2]); }

void session_free_program(struct session *session) {
  struct session_stages *stages = &session->stages[session->in_force % 2];
  session->flow.program = stages->program = device_program_free(stages->program);
}

const struct session_stages *session_stages(const struct session *session) { return &session->stages[session->in_force % 2]; }

const struct session_stages *session_other_stages(const struct session *session) {
  return &session->stages[(session->in_force + 1) % 2];
}

/* -- replacing the stages ------------------------------------------------------------------------------------------ */

bool session_take_labels(struct session *session, const struct device_chain *chain) {
  const struct chain_record *record = device_chain_record(chain);
  return sink_take_labels(session->sink, (session->in_force + 1) % FLOW_STAGES, (const char *const *)record->labels,
                          record->label_count);
}

/* Runs a warm-up in separate memory: makes its choices, and loads what frames need onto the device. */
static bool stages_learn(struct session *session, struct session_stages *stages, struct failure *failure) {
  const struct flow *flow = &session->flow;
  struct device *device = session->setup.device;
  struct arena inputs = ARENA_NONE, outputs = ARENA_NONE;
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  char name[96];
  snprintf(name, sizeof name, "framed:%s:trial", session->setup.config->name);
  bool learnt = arena_make(&inputs, name, flow->input_bytes, flow->ring.count, device, failure) &&
                arena_make(&outputs, name, flow->output_bytes, flow->ring.count, device, failure);
  for (unsigned i = 0; i < flow->ring.count && learnt; i++) {
    buffers[i] = (struct gpu_buffers){.input = inputs.base + i * arena_stride(flow->input_bytes),
                                      .output = outputs.base + i * arena_stride(flow->output_bytes)};
  }
  learnt = learnt && stages_make(session, stages, buffers, 0, failure);
  if (learnt) {
    keep_choices(stages);
  }
  stages->program = device_program_free(stages->program);
  arena_drop(&inputs);
  arena_drop(&outputs);
  return learnt;
}

bool session_prepare_stages(struct session *session, const struct session_stages *stages, struct failure *failure) {
  const unsigned all = (1U << session->flow.ring.count) - 1;
  struct session_stages *next = &session->stages[(session->in_force + 1) % 2];
  struct gpu_buffers buffers[GPU_MAX_SLOTS];
  *next = *stages;
  next->program = NULL;
  if (next->costs.alone == 0 && !stages_learn(session, next, failure)) {
    return false;
  }
  find_buffers(session, buffers);
  return !session->inputs.base || stages_make(session, next, buffers, all, failure);
}

void session_take_stages(struct session *session) {
  struct flow *flow = &session->flow;
  flow->held_back = false;
  flow->stages = (flow->stages + 1) % FLOW_STAGES;
  flow->program = session->stages[flow->stages % 2].program;
  flow->restart_pending = true; /* the new stages have no state */
  session_report(session, SESSION_CHANGED);
}

void session_drop_stages(struct session *session) {
  struct session_stages *others = &session->stages[(session->in_force + 1) % 2];
  others->program = device_program_free(others->program);
}
