/*
 * The programs of a session: those of the stages in force, and how other stages take their place, while its producer stays and
 * every frame stays where it is.
 *
 * The others are made ready on a set-up thread, in the slots' memory, through which no warm-up frame may go meanwhile; what a
 * warm-up decides is learnt in other memory before that. Then the lane is told: it dispatches nothing until no frame is on the
 * device, so that frames keep their order, and goes on with the other program in the same turn.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/base/formats.h"
#include "daemon/session/private.h"

/* Called by stream callbacks, from any thread. */
static void wake_from_device(void *context) {
  struct session *session = context;
  lane_wake(session->setup.lane, &session->runner);
}

/* -- programs ------------------------------------------------------------------------------------------------------ */

/* What the first warm-up has measured holds for all programs of these stages. */
static void keep_choices(struct session_stages *stages) {
  stages->graph = gpu_program_graph(stages->program) ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  stages->copy = gpu_program_copies_by_kernel(stages->program) ? GPU_COPY_KERNEL : GPU_COPY_ENGINE;
  stages->timed_one_in = (int)gpu_program_timed_one_in(stages->program);
  if (stages->costs.alone == 0) {
    gpu_program_costs(stages->program, &stages->costs);
  }
}

/* On false what was made of it stays to be freed. */
static bool stages_make(struct session *session, struct session_stages *stages, const struct gpu_buffers *buffers,
                        unsigned spared, struct failure *failure) {
  const struct session_setup *setup = &session->setup;
  struct gpu_error error = {0};
  const struct gpu_options options = {
      .wake = wake_from_device,
      .context = session,
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
  stages->program = gpu_program_new(setup->device, stages->chain, buffers, session->flow.ring.count, &options, &error);
  if (!stages->program || !gpu_program_warm_up(stages->program, &error)) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, error.remedy, "pipeline '%s': %s", setup->config->name, error.text);
  }
  return true;
}

static void find_buffers(const struct session *session, struct gpu_buffers *buffers) {
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    const struct slot *slot = &session->flow.ring.slots[i];
    buffers[i] = (struct gpu_buffers){.input = slot->input, .output = slot->output};
  }
}

/* Warm-up frames go through free slots, where a frame that was given up would break the device once more. */
static void clear_given_up(struct session *session) {
  const struct flow *flow = &session->flow;
  for (unsigned i = 0; i < flow->ring.count && session->quarantined > 0; i++) {
    if (flow->ring.slots[i].state == SLOT_FREE) {
      memset(flow->ring.slots[i].input, 0, flow->input_bytes);
    }
  }
}

/* A bit for each slot with a result, which no warm-up frame may overwrite. */
static unsigned find_spared(const struct session *session) {
  const bool is_foreign = gpu_chain_is_foreign(session_stages(session)->chain);
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
  clear_given_up(session);
  bool made = stages_make(session, stages, buffers, find_spared(session), failure);
  session->flow.program = stages->program;
  return made;
}

void session_keep_choices(struct session *session) { keep_choices(&session->stages[session->in_force % 2]); }

void session_free_program(struct session *session) {
  struct session_stages *stages = &session->stages[session->in_force % 2];
  session->flow.program = stages->program = gpu_program_free(stages->program);
}

const struct session_stages *session_stages(const struct session *session) { return &session->stages[session->in_force % 2]; }

const struct session_stages *session_other_stages(const struct session *session) {
  return &session->stages[(session->in_force + 1) % 2];
}

/* -- other stages -------------------------------------------------------------------------------------------------- */

bool session_take_labels(struct session *session, const struct gpu_chain *chain) {
  unsigned count;
  const char *const *labels = gpu_chain_labels(chain, &count);
  return sink_take_labels(session->sink, (session->in_force + 1) % FLOW_STAGES, labels, count);
}

/* Learns what a warm-up decides, and has the device load what frames need, in memory that no frame is in. */
static bool stages_learn(struct session *session, struct session_stages *stages, struct failure *failure) {
  const struct flow *flow = &session->flow;
  struct gpu_device *device = session->setup.device;
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
  stages->program = gpu_program_free(stages->program);
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
  flow->withheld = false;
  flow->stages = (flow->stages + 1) % FLOW_STAGES;
  flow->program = session->stages[flow->stages % 2].program;
  flow->restart_owed = true; /* the other stages' state is empty */
  session_tell(session, SESSION_CHANGED);
}

void session_drop_stages(struct session *session) {
  struct session_stages *others = &session->stages[(session->in_force + 1) % 2];
  others->program = gpu_program_free(others->program);
}
