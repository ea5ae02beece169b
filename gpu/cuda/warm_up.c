/*
 * The end of a program's warm-up: graphs are made, and what the options leave to measurement is measured.
 *
 * Frames go through all slots back to back, as a saturated lane sends them: step by step, replayed, and replayed with kernels
 * for copies where they are small, with events around the steps and without. Rounds of each take turns and the best one counts,
 * so that other work on the device that comes and goes decides nothing. Frames that take long get few rounds, but they are
 * measured too: events cost them little time, but can keep copies from running at once.
 */
#include "gpu/cuda/cuda.h"

#include <sched.h>
#include <string.h>

#define ROUND_NS  INT64_C(1000000)   /* what a round should take */
#define ENOUGH_NS INT64_C(100000000) /* no round begins later than that */
enum { ROUNDS = 3, MAX_FRAMES = 128, POLLS = 64 };
/* Throughputs that differ by this share are equal. Times may cost half as much, since others have costs too. */
#define EQUAL          0.02
#define TIMES_MAY_COST 0.01

struct trials {
  bool wanted[CUDA_WAYS][2];    /* [way][timed] */
  int64_t best[CUDA_WAYS][2];   /* time from frame to frame */
  int64_t effort[CUDA_WAYS][2]; /* the lane's time to submit one */
};

void cuda_choose(struct cuda_program *program, enum cuda_way way) {
  program->way = way;
  program->base.graph = way != CUDA_STEPS;
  program->base.copies_by_kernel = way == CUDA_REPLAY_COPIED;
}

/* Callbacks are polled for, since nobody is woken; a fault is found by asking only. */
static bool await(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  int64_t limit = gpu_now() + GPU_WARM_UP_LIMIT_NS;
  for (unsigned i = 1;; i++) {
    bool ask = !program->options.notify || i % POLLS == 0;
    enum gpu_progress progress = ask ? gpu_ask(program, slot, error) : gpu_told(program, slot);
    if (progress != GPU_PENDING) {
      return progress == GPU_DONE;
    }
    if (i % POLLS == 0 && gpu_now() > limit) {
      gpu_abandon(program->device, GPU_WARM_UP_HANGS);
    }
    if (!ask) {
      sched_yield();
    }
  }
}

/* Runs that many frames, and gives the time from frame to frame, and that within gpu_submit(). */
static bool run(struct gpu_program *program, unsigned frames, int64_t *each, int64_t *effort, struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = STAGE_WARM_UP, .notify = program->options.notify};
  struct gpu_times times;
  int64_t begin = gpu_now(), within = 0;
  for (unsigned i = 0; i < frames + program->slot_count; i++) {
    unsigned slot = i % program->slot_count;
    if (i >= program->slot_count && i - program->slot_count < frames) {
      if (!await(program, slot, error)) {
        return false;
      }
      (void)gpu_times(program, slot, &times); /* reading them is part of what they cost */
    }
    int64_t before = gpu_now();
    if (i < frames && !gpu_submit(program, slot, &frame, error)) {
      return false;
    }
    within += gpu_now() - before;
  }
  *each = frames > 0 ? (gpu_now() - begin) / frames : 0;
  *effort = frames > 0 ? within / frames : 0;
  return true;
}

static void lower(int64_t *best, int64_t ns) { *best = *best == 0 || ns < *best ? ns : *best; }

static bool run_trial(struct gpu_program *program, enum cuda_way way, bool timed, unsigned frames, struct trials *trials,
                      struct gpu_error *error) {
  int64_t each, effort;
  cuda_choose((struct cuda_program *)program, way);
  program->timed_one_in = timed ? 1 : 0;
  if (!run(program, frames, &each, &effort, error)) {
    return false;
  }
  lower(&trials->best[way][timed], each);
  lower(&trials->effort[way][timed], effort);
  return true;
}

static bool run_round(struct gpu_program *program, unsigned frames, struct trials *trials, struct gpu_error *error) {
  for (int i = 0; i < 2 * CUDA_WAYS; i++) {
    int way = i / 2, timed = i % 2;
    if (trials->wanted[way][timed] && !run_trial(program, (enum cuda_way)way, timed, frames, trials, error)) {
      return false;
    }
  }
  return true;
}

static int64_t longest(const struct trials *trials) {
  int64_t longest = 1;
  for (int i = 0; i < 2 * CUDA_WAYS; i++) {
    int64_t best = trials->best[i / 2][i % 2];
    longest = best > longest ? best : longest;
  }
  return longest;
}

static void forget(struct trials *trials) {
  memset(trials->best, 0, sizeof trials->best);
  memset(trials->effort, 0, sizeof trials->effort);
}

/* The first round only warms up. The second says how many frames the others take; where those are no more, it counts. */
static bool measure_all(struct gpu_program *program, bool decides, struct trials *trials, struct gpu_error *error) {
  unsigned least = 2 * program->slot_count;
  bool good = program->options.spared != 0 || run_round(program, program->slot_count, trials, error);
  forget(trials);
  if (!good || !decides) {
    return good;
  }
  int64_t begin = gpu_now();
  good = run_round(program, least, trials, error);
  int64_t wanted = ROUND_NS / longest(trials);
  bool is_long = wanted <= least;
  unsigned frames = wanted > MAX_FRAMES ? MAX_FRAMES : is_long ? least : (unsigned)wanted;
  if (!is_long) {
    forget(trials);
  }
  for (int i = is_long ? 1 : 0; i < ROUNDS && good && (!is_long || gpu_now() - begin < ENOUGH_NS); i++) {
    good = run_round(program, frames, trials, error);
  }
  return good;
}

/* One frame in how many may be timed, so that times cost half of what they may. */
static unsigned rarity(int64_t untimed, int64_t timed) {
  double cost = untimed > 0 ? (double)(timed - untimed) / (double)untimed : 0;
  unsigned one_in = 1;
  while (cost > TIMES_MAY_COST && one_in < GPU_TIMED_RAREST && cost / one_in > TIMES_MAY_COST / 2) {
    one_in *= 2;
  }
  return one_in;
}

/* Of two ways that are equally fast, the one that leaves a lane more time for others. */
static bool is_better(const struct trials *trials, bool timed, enum cuda_way way, enum cuda_way than) {
  double each = (double)trials->best[way][timed], other = (double)trials->best[than][timed];
  bool is_lighter = trials->effort[way][timed] < trials->effort[than][timed];
  return each > 0 && each < other * (is_lighter ? 1 + EQUAL : 1 - EQUAL);
}

/* The best way of those that are wanted, and that were measured where there is a choice. */
static enum cuda_way find_best(const struct trials *trials, bool timed) {
  enum cuda_way best = CUDA_STEPS;
  while (!trials->wanted[best][timed]) {
    best++;
  }
  for (enum cuda_way way = best + 1; way < CUDA_WAYS; way++) {
    if (trials->wanted[way][timed] && is_better(trials, timed, way, best)) {
      best = way;
    }
  }
  return best;
}

static void decide(struct cuda_program *program, const struct trials *trials) {
  struct gpu_program *base = &program->base;
  const int one_in = base->options.timed_one_in;
  bool timed = one_in == 1; /* what most frames are */
  enum cuda_way way = find_best(trials, timed);
  cuda_choose(program, way);
  base->timed_one_in = one_in > 0 ? (unsigned)one_in : 0;
  base->measured = (struct gpu_measured){.plain = trials->best[CUDA_STEPS][timed],
                                         .graph = trials->best[CUDA_REPLAY][timed],
                                         .copied = trials->best[CUDA_REPLAY_COPIED][timed]};
  if (one_in == GPU_TIMED_AUTO) {
    base->measured.untimed = trials->best[way][0];
    base->measured.timed = trials->best[way][1];
    base->timed_one_in = rarity(base->measured.untimed, base->measured.timed);
  }
}

/* Whether kernels may make the copies. */
static bool can_copy(const struct gpu_program *program) {
  const struct gpu_chain *chain = program->chain;
  return ((const struct cuda_device *)program->device)->reads_host && program->options.copy != GPU_COPY_ENGINE &&
         chain->input_bytes <= CUDA_MOST_COPIED && chain->output_bytes <= CUDA_MOST_COPIED && !cuda_order_in(program) &&
         !cuda_order_out(program);
}

/* Which ways there are to choose from; returns how many. */
static unsigned find_ways(const struct gpu_program *program, struct trials *trials) {
  const struct gpu_options *options = &program->options;
  bool replays = options->graph != GPU_GRAPH_OFF, copies = replays && can_copy(program);
  const bool ways[CUDA_WAYS] = {[CUDA_STEPS] = options->graph != GPU_GRAPH_ON,
                                [CUDA_REPLAY] = replays && !(copies && options->copy == GPU_COPY_KERNEL),
                                [CUDA_REPLAY_COPIED] = copies};
  unsigned count = 0;
  for (int way = 0; way < CUDA_WAYS; way++) {
    trials->wanted[way][0] = ways[way] && options->timed_one_in != 1;
    trials->wanted[way][1] = ways[way] && options->timed_one_in != GPU_TIMED_NEVER;
    count += ways[way];
  }
  return count;
}

static bool make_graphs(struct cuda_program *program, const struct trials *trials, struct gpu_error *error) {
  for (enum cuda_way way = CUDA_REPLAY; way < CUDA_WAYS; way++) {
    if ((trials->wanted[way][0] || trials->wanted[way][1]) && !cuda_graph_make(program, way, error)) {
      return false;
    }
  }
  return true;
}

static bool settle(struct cuda_program *program, struct gpu_error *error) {
  struct gpu_program *base = &program->base;
  struct trials trials = {0};
  bool is_open = find_ways(base, &trials) > 1 || base->options.timed_one_in == GPU_TIMED_AUTO;
  bool decides = base->options.spared == 0 && is_open;
  bool needs_mailbox = trials.wanted[CUDA_REPLAY_COPIED][0] && !base->options.notify;
  if ((needs_mailbox && !cuda_mailbox_open(program, error)) || !make_graphs(program, &trials, error) ||
      !measure_all(base, decides, &trials, error)) {
    return false;
  }
  decide(program, &trials);
  for (unsigned i = 0; i < base->slot_count; i++) {
    /* What told of the last frame may not have returned yet. */
    if (!CUDA_CALL(base->device, error, cudaStreamSynchronize, program->slots[i].stream)) {
      return false;
    }
    cuda_graph_drop_others(base->device, &program->slots[i], program->way);
  }
  return true;
}

/* Frames that a kernel takes which stays go one way, and have no times. */
static bool settle_resident(struct cuda_program *program, struct gpu_error *error) {
  cuda_choose(program, CUDA_STEPS);
  program->base.copies_by_kernel = true;
  program->base.timed_one_in = 0;
  return cuda_mailbox_stay(program, error);
}

bool cuda_warm_up(struct gpu_program *base, struct gpu_error *error) {
  struct cuda_program *program = (struct cuda_program *)base;
  return cuda_enter(base->device, error) && (base->options.resident ? settle_resident(program, error) : settle(program, error));
}
