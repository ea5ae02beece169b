/* Programs of the CPU backend as a lane sees them: frames go in and are asked after; frames.c says how workers run them. */
#include "gpu/cpu/private.h"

#include <errno.h>
#include <stdlib.h>

/* How long a worker looks for the next frame: about as long as waking it takes, or, where a lane that spins would have to do
 * that, as long as such a lane itself goes on by default. */
#define PATIENCE_NS          INT64_C(20000)
#define PATIENCE_SPINNING_NS INT64_C(200000)

/* -- calls of a lane ---------------------------------------------------------------------------------------------- */

bool cpu_submit(struct gpu_program *base, unsigned index, const struct gpu_frame *frame, struct gpu_error *error) {
  (void)error;
  struct cpu_program *program = (struct cpu_program *)base;
  struct cpu_slot *slot = &program->slots[index];
  slot->frame = *frame;
  slot->next_stage = 0;
  slot->started = slot->kernel = slot->model = slot->modelled = 0;
  slot->instance = slot->batch = 0;
  slot->handed = slot->late = false;
  slot->refusal[0] = '\0';
  slot->ticket = program->next_ticket++;
  slot->job.patience_ns = frame->notify ? PATIENCE_NS : PATIENCE_SPINNING_NS;
  atomic_store(&slot->state, frame->notify ? SLOT_RUNNING_NOTIFY : SLOT_RUNNING);
  pool_take_lock(&program->lock);
  program->busy++;
  pthread_mutex_unlock(&program->lock);
  pool_push(program->pool, &slot->job, POOL_BACK);
  return true;
}

enum gpu_progress cpu_told(struct gpu_program *base, unsigned index) {
  struct cpu_program *program = (struct cpu_program *)base;
  enum slot_state state = atomic_load_explicit(&program->slots[index].state, memory_order_acquire);
  return state == SLOT_DONE || state == SLOT_TOLD ? GPU_DONE : GPU_PENDING;
}

enum gpu_progress cpu_ask(struct gpu_program *base, unsigned index, struct gpu_error *error) {
  (void)error;
  return cpu_told(base, index);
}

bool cpu_arm(struct gpu_program *base, unsigned index, struct gpu_error *error) {
  (void)error;
  struct cpu_program *program = (struct cpu_program *)base;
  enum slot_state running = SLOT_RUNNING;
  atomic_compare_exchange_strong(&program->slots[index].state, &running, SLOT_RUNNING_NOTIFY);
  return true;
}

/* Of the time of a batch, its part. */
static int64_t others_of(const struct cpu_slot *slot) {
  return slot->batch > 1 ? slot->model - slot->model / (int64_t)slot->batch : 0;
}

bool cpu_times(struct gpu_program *base, unsigned index, struct gpu_times *result) {
  struct cpu_program *program = (struct cpu_program *)base;
  const struct cpu_slot *slot = &program->slots[index];
  if (base->timed_one_in == 0) {
    return false;
  }
  *result = (struct gpu_times){
      .begin = slot->started, /* there is nothing to copy */
      .copied_in = slot->started,
      .computed = slot->finished,
      .copied_out = slot->finished,
      .kernel = slot->kernel,
      .wait = slot->finished - slot->started - slot->kernel,
      .others = others_of(slot),
      .told = atomic_load(&slot->state) == SLOT_TOLD ? slot->finished : 0,
      .modelled = slot->modelled,
      .model = slot->model,
      .instance = slot->instance,
      .batch = slot->batch,
  };
  return true;
}

bool cpu_late(struct gpu_program *base, unsigned index) { return ((struct cpu_program *)base)->slots[index].late; }

const char *cpu_refusal(struct gpu_program *base, unsigned index) {
  const struct cpu_slot *slot = &((struct cpu_program *)base)->slots[index];
  return *slot->refusal ? slot->refusal : NULL;
}

/* -- programs ----------------------------------------------------------------------------------------------------- */

static bool join_stages(struct cpu_program *program, struct gpu_error *error) {
  const struct gpu_chain *chain = program->base.chain;
  for (unsigned i = 0; i < chain->length; i++) {
    const struct stage_plan *plan = &chain->plans[i];
    if (plan->stage->joins && plan->stage->joins(plan) &&
        !(program->joined[i] = plan->stage->join(program->base.device, plan, error))) {
      error->stage = (int)i;
      return false;
    }
  }
  return true;
}

struct gpu_program *cpu_program_new(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                    unsigned count, const struct gpu_options *options, struct gpu_error *error) {
  struct cpu_program *program = calloc(1, sizeof *program + count * sizeof program->slots[0]);
  if (!program) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a program of %u slots", count);
    return NULL;
  }
  chain_layout(chain, false, count, &program->layout);
  /* Never of size 0, so that a program without memory needs no case of its own. */
  program->memory = aligned_alloc(GPU_ALIGNMENT, program->layout.total_bytes + GPU_ALIGNMENT);
  if (!program->memory) {
    gpu_error_set(error, ENOMEM, "use fewer slots or clients, or smaller frames", "no %zu bytes of memory for %u slots",
                  program->layout.total_bytes, count);
    free(program);
    return NULL;
  }
  gpu_program_init(&program->base, device, chain, count, options);
  program->pool = ((struct cpu_device *)device)->pool;
  pthread_mutex_init(&program->lock, NULL);
  pthread_cond_init(&program->changed, NULL);
  for (unsigned i = 0; i < count; i++) {
    program->slots[i] = (struct cpu_slot){
        .job = {.run = cpu_run_frame, .priority = options->priority},
        .program = program,
        .buffers = slots[i],
        .memory = program->memory + i * program->layout.slot_bytes,
    };
  }
  if (!join_stages(program, error)) {
    cpu_program_free(&program->base);
    return NULL;
  }
  return &program->base;
}

/* There are no graphs, and reading the clock costs nothing that could be spared. */
bool cpu_prepare(struct gpu_program *program, struct gpu_error *error) {
  (void)error;
  program->timed_one_in = program->timed_one_in > 0 ? 1 : 0;
  return true;
}

void cpu_program_free(struct gpu_program *base) {
  struct cpu_program *program = (struct cpu_program *)base;
  pool_take_lock(&program->lock);
  program->freeing = true;
  pthread_cond_broadcast(&program->changed);
  while (program->busy > 0) {
    pthread_cond_wait(&program->changed, &program->lock);
  }
  pthread_mutex_unlock(&program->lock);
  for (unsigned i = 0; i < base->chain->length; i++) {
    if (program->joined[i]) {
      base->chain->plans[i].stage->leave(program->joined[i]);
    }
  }
  pthread_cond_destroy(&program->changed);
  pthread_mutex_destroy(&program->lock);
  free(program->memory);
  free(program);
}
