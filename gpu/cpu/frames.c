/*
 * Programs of the CPU backend: a slot's stream is its one job in the pool, so frames of a slot run in order and those of
 * different slots on as many workers as there are.
 *
 * Nothing is copied: the first stage reads the pinned input, the last writes the pinned output, and what lies
 * between is two buffers of the slot. Frames pass the stages with state in the order of their submission, one
 * after the other: each has a ticket, and one whose turn it is not is parked and costs no worker; the frame before
 * it puts it back into the queue. So no worker ever waits for a frame, and one is enough for any number of slots: of
 * the frames of a program that are not done, the one with the lowest ticket is never parked.
 *
 * A stage may also take a frame over, which then costs no worker either until the stage gives it back; to the program it is
 * busy.
 *
 * What a worker writes to a slot happens before `state` says that it is done, and after that it touches only the
 * program, which gpu_program_free() keeps until `busy` is 0.
 */
#include "gpu/cpu/private.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* -- frame order -------------------------------------------------------------------------------------------------- */

static bool is_left_out(const struct cpu_slot *slot) { return slot->late || *slot->refusal; }

/* Whether the frame may use the state now. If not, it is parked and no longer the caller's. */
static bool take_turn(struct cpu_slot *slot) {
  struct cpu_program *program = slot->program;
  pool_take_lock(&program->lock);
  bool mine = program->turn == slot->ticket;
  if (!mine) {
    slot->kernel += gpu_now() - slot->resumed;
    slot->parked = true;
    program->busy--;
  }
  pthread_mutex_unlock(&program->lock);
  if (!mine) {
    return false;
  }
  slot->frame.restart |= program->restarts;
  program->restarts = slot->frame.restart && is_left_out(slot);
  if (slot->frame.restart) {
    memset(program->memory + program->base.slot_count * program->layout.slot_bytes, 0, program->layout.state_bytes);
  }
  return true;
}

static void pass_turn(struct cpu_program *program) {
  struct cpu_slot *next = NULL;
  pool_take_lock(&program->lock);
  program->turn++;
  for (unsigned i = 0; i < program->base.slot_count && !next; i++) {
    struct cpu_slot *slot = &program->slots[i];
    next = slot->parked && slot->ticket == program->turn ? slot : NULL;
  }
  if (next) {
    next->parked = false;
    program->busy++;
  }
  pthread_mutex_unlock(&program->lock);
  if (next) {
    pool_push(program->pool, &next->job, POOL_FRONT);
  }
}

/* -- running a frame ---------------------------------------------------------------------------------------------- */

static bool given_up(const struct cpu_program *program) {
  return atomic_load(&program->lost) || gpu_device_is_dead(program->base.device, NULL);
}

/* A stage that the frame was handed over to has computed it: a worker goes on with it. */
static void resume(struct stage_call *call) {
  struct cpu_slot *slot = (struct cpu_slot *)((unsigned char *)call - offsetof(struct cpu_slot, call));
  pool_push(slot->program->pool, &slot->job, POOL_FRONT);
}

/* What a model cannot compute is that frame's matter alone: the stages behind it are left out. */
static void refuse(struct cpu_slot *slot, unsigned index, const char *problem) {
  const char *name = slot->program->base.chain->plans[index].stage->about->name;
  snprintf(slot->refusal, sizeof slot->refusal, "stages[%u] (%s): %.340s", index, name, problem);
}

/* Any other stage that fails is the device's end, as a kernel's fault is on a GPU: frames run again, and one that fails again
 * by itself is given up. */
static void fail(struct cpu_slot *slot, unsigned index, const char *problem) {
  const struct gpu_program *program = &slot->program->base;
  struct gpu_error error;
  gpu_error_set(&error, 0, NULL, "stages[%u] (%s), frame %llu: %s", index, program->chain->plans[index].stage->about->name,
                (unsigned long long)slot->frame.sequence, problem);
  error.stage = (int)index;
  gpu_device_die(program->device, &error);
}

static void make_call(struct cpu_slot *slot, unsigned index) {
  const struct cpu_program *program = slot->program;
  const struct gpu_chain *chain = program->base.chain;
  const struct chain_layout *layout = &program->layout;
  const struct stage_plan *plan = &chain->plans[index];
  unsigned char *state = program->memory + program->base.slot_count * layout->slot_bytes + layout->state[index];
  slot->problem[0] = '\0';
  slot->run = (struct stage_run){0};
  slot->call = (struct stage_call){
      .input = index == 0 ? (const unsigned char *)slot->buffers.input : slot->memory + layout->buffer[index % 2],
      .output = index + 1 == chain->length ? slot->buffers.output : slot->memory + layout->buffer[(index + 1) % 2],
      .source = chain->takes_source ? slot->buffers.input : NULL,
      .state = plan->state_bytes > 0 ? state : NULL,
      .scratch = plan->scratch_bytes > 0 ? slot->memory + layout->scratch : NULL,
      .session = program->base.sessions[index],
      .sequence = slot->frame.sequence,
      .restart = slot->frame.restart,
      .again = slot->frame.again,
      .priority = program->base.options.priority,
      .deadline = slot->frame.deadline,
      .attached = program->joined[index],
      .slot = (unsigned)(slot - program->slots),
      .run = plan->stage->about->runs_model ? &slot->run : NULL,
      .resume = resume,
      .problem = slot->problem,
  };
}

/* A warm-up frame is any bytes, which nobody waits for. */
static void conclude(struct cpu_slot *slot, unsigned index) {
  bool is_model = slot->program->base.chain->plans[index].stage->about->runs_model;
  if (*slot->problem && slot->frame.sequence != STAGE_WARM_UP) {
    (is_model ? refuse : fail)(slot, index, slot->problem);
  }
}

static void conclude_model(struct cpu_slot *slot, unsigned index, int64_t began, int64_t ended) {
  slot->modelled = ended;
  slot->model += ended - began;
  slot->instance = slot->run.instance;
  slot->batch = slot->run.batch;
  stage_count(slot->run.served, slot->frame.sequence);
  conclude(slot, index);
}

static void run_stage(struct cpu_slot *slot, unsigned index) {
  const struct stage_plan *plan = &slot->program->base.chain->plans[index];
  int64_t began = plan->stage->about->runs_model ? gpu_now() : 0;
  make_call(slot, index);
  plan->stage->run(plan, &slot->call);
  if (plan->stage->about->runs_model) {
    conclude_model(slot, index, began, gpu_now());
  } else {
    conclude(slot, index);
  }
}

/* From then on the frame is the stage's, until it gives it back. */
static void hand_over(struct cpu_slot *slot, unsigned index) {
  make_call(slot, index);
  slot->kernel += gpu_now() - slot->resumed;
  slot->handed = true;
  slot->program->base.chain->plans[index].stage->hand(&slot->call);
}

static void take_back(struct cpu_slot *slot, unsigned index) {
  slot->handed = false;
  slot->kernel += slot->run.until - slot->run.from;
  conclude_model(slot, index, slot->run.from, slot->run.until);
}

enum outcome { OUTCOME_DONE, OUTCOME_PARKED, OUTCOME_LOST };

/* Runs the stages that are left, as far as they may run now. */
static enum outcome run_stages(struct cpu_slot *slot) {
  struct cpu_program *program = slot->program;
  const struct gpu_chain *chain = program->base.chain;
  if (chain->length == 0 && !slot->late) {
    memcpy(slot->buffers.output, slot->buffers.input, chain->input_bytes);
  }
  while (slot->next_stage < chain->length) {
    unsigned index = slot->next_stage;
    if (given_up(program)) {
      return OUTCOME_LOST;
    }
    if ((int)index == chain->first_stateful && !take_turn(slot)) {
      return OUTCOME_PARKED;
    }
    if (slot->handed) {
      take_back(slot, index);
    } else if (!is_left_out(slot) && program->joined[index]) {
      hand_over(slot, index);
      return OUTCOME_PARKED;
    } else if (!is_left_out(slot)) {
      run_stage(slot, index);
    }
    slot->next_stage = index + 1;
    if ((int)index == chain->last_stateful && !given_up(program)) {
      pass_turn(program);
    }
  }
  if (given_up(program)) {
    return OUTCOME_LOST;
  }
  return OUTCOME_DONE;
}

/* Marks the slot done and wakes whoever asked for it. From the mark on, the slot may be submitted again. */
static void finish(struct cpu_slot *slot) {
  struct cpu_program *program = slot->program;
  slot->finished = gpu_now();
  slot->kernel += slot->finished - slot->resumed;
  enum slot_state running = SLOT_RUNNING;
  if (atomic_compare_exchange_strong(&slot->state, &running, SLOT_DONE)) {
    return;
  }
  atomic_store(&slot->state, SLOT_TOLD);
  /* libuv before 1.53 can lose a wake-up without this fence. */
  atomic_thread_fence(memory_order_seq_cst);
  program->base.options.wake(program->base.options.context);
}

void cpu_run_frame(struct pool_job *job) {
  struct cpu_slot *slot = (struct cpu_slot *)job;
  struct cpu_program *program = slot->program;
#ifdef FRAMED_FAULTS
  cpu_fault_slot = slot;
#endif
  slot->resumed = gpu_now();
  if (!slot->started) {
    slot->started = slot->resumed;
    slot->late = slot->frame.deadline != 0 && slot->started > slot->frame.deadline;
  }
  enum outcome outcome = run_stages(slot);
  if (outcome == OUTCOME_PARKED) {
    return;
  }
  if (outcome == OUTCOME_DONE) {
    finish(slot);
  }
  pool_take_lock(&program->lock);
  program->busy--;
  if (program->busy == 0 && program->freeing) {
    pthread_cond_broadcast(&program->changed);
  }
  pthread_mutex_unlock(&program->lock);
}
