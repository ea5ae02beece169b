#include "tools/framebench/overlap/workload.h"

#include <math.h>

enum { MOST_ROUNDS = 100000, TRIAL_FRAMES = 12, FEW_ROUNDS = 8, MANY_ROUNDS = 264 };

/* For a device without copies, such as a CPU, a copy counts as long as one in memory at this rate: bytes per microsecond. */
#define MEMORY_RATE 10e3

const char *const workload_names[WORKLOAD_KINDS] = {"affine", "work, half a copy", "work, as a copy", "work, twice a copy"};

/* Service times of a single frame. */
static bool try_rounds(struct gpu_device *device, size_t frame_bytes, unsigned rounds, double service[OVERLAP_ENGINES],
                       struct problem *problem) {
  struct engine_figures figures;
  struct gpu_chain *chain = engine_chain(frame_bytes, "work", "rounds", rounds, problem);
  const struct engine_setup setup = {
      .chain = chain, .slots = 1, .completion = ENGINE_SPIN, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  struct engine *engine = chain ? engine_new(device, &setup, problem) : NULL;
  bool done = engine && engine_run(engine, TRIAL_FRAMES, NULL, 0, &figures, problem);
  for (int i = 0; i < OVERLAP_ENGINES && done; i++) {
    service[i] = figures.timed > 0 ? figures.service[i] / (double)figures.timed : 0;
  }
  engine_free(engine);
  gpu_chain_free(chain);
  return done;
}

bool workload_measure(struct gpu_device *device, size_t frame_bytes, struct workload_costs *costs, struct problem *problem) {
  double few[OVERLAP_ENGINES], many[OVERLAP_ENGINES];
  if (!try_rounds(device, frame_bytes, FEW_ROUNDS, few, problem) ||
      !try_rounds(device, frame_bytes, MANY_ROUNDS, many, problem)) {
    return false;
  }
  double difference = many[OVERLAP_KERNEL] - few[OVERLAP_KERNEL];
  costs->round = fmax(difference, 0) / (MANY_ROUNDS - FEW_ROUNDS);
  costs->base = fmax(few[OVERLAP_KERNEL] - FEW_ROUNDS * costs->round, 0);
  costs->copy = few[OVERLAP_H2D] > 0 ? few[OVERLAP_H2D] : (double)frame_bytes / MEMORY_RATE;
  return true;
}

unsigned workload_rounds(const struct workload_costs *costs, double kernel) {
  double rounds = costs->round > 0 ? round((kernel - costs->base) / costs->round) : 1;
  return rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : (unsigned)rounds;
}

struct gpu_chain *workload_chain(enum workload_kind kind, size_t frame_bytes, const struct workload_costs *costs,
                                 unsigned *rounds, struct problem *problem) {
  static const double shares[WORKLOAD_KINDS] = {0, 0.5, 1, 2};
  if (kind == WORKLOAD_AFFINE) {
    *rounds = 0;
    return engine_chain(frame_bytes, "affine", "scale", 2, problem);
  }
  *rounds = workload_rounds(costs, shares[kind] * costs->copy);
  return engine_chain(frame_bytes, "work", "rounds", *rounds, problem);
}
