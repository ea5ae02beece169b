/*
 * What is won or lost by having a copy wait for the one before it in its direction: the size of frames from which the backend
 * does so by itself is chosen from these rows.
 */
#include "tools/framebench/overlap/overlap.h"
#include "tools/framebench/overlap/workload.h"

static const struct section order_section = {"order", "Copies that share the link, and copies in the order of their frames",
                                             (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                                                                     {"kernel", "KERNEL", COLUMN_TEXT},
                                                                     {"slots", "SLOTS", COLUMN_COUNT},
                                                                     {"shared_us", "SHARED", COLUMN_TIME},
                                                                     {"ordered_us", "IN ORDER", COLUMN_TIME},
                                                                     {"speedup", "SHARED/ORDER", COLUMN_RATIO},
                                                                     {0}}};

/* What is asked is the wall alone. */
static bool run_frames(struct engine *engine, double seconds, struct engine_figures *figures, struct problem *problem) {
  enum { FEW = 16 * OVERLAP_ENOUGH_SLOTS };
  if (!engine_run(engine, FEW, NULL, 0, figures, problem)) {
    return false;
  }
  double frames = seconds * 1e6 / engine_each(figures);
  return engine_run(engine, frames > FEW ? (uint64_t)frames : FEW, NULL, 0, figures, problem);
}

static bool run(struct gpu_device *device, const struct gpu_chain *chain, enum gpu_order_choice order, double seconds,
                double *each, struct problem *problem) {
  const struct engine_setup setup = {.chain = chain,
                                     .slots = OVERLAP_ENOUGH_SLOTS,
                                     .completion = ENGINE_SPIN,
                                     .graph = GPU_GRAPH_OFF,
                                     .timed_one_in = GPU_TIMED_NEVER,
                                     .order = order};
  struct engine_figures figures = {0};
  struct engine *engine = engine_new(device, &setup, problem);
  bool done = engine && run_frames(engine, seconds, &figures, problem);
  *each = done ? engine_each(&figures) : 0;
  engine_free(engine);
  return done;
}

static bool kernel_row(struct results *results, struct gpu_device *device, const struct gpu_chain *chain, size_t bytes,
                       enum workload_kind kind, double seconds, struct problem *problem) {
  double shared, ordered;
  if (!run(device, chain, GPU_ORDER_OFF, seconds, &shared, problem) ||
      !run(device, chain, GPU_ORDER_ON, seconds, &ordered, problem)) {
    return false;
  }
  results_row(results,
              json_pack("{s:I, s:s, s:i, s:f, s:f, s:f}", "bytes", (json_int_t)bytes, "kernel", workload_names[kind], "slots",
                        OVERLAP_ENOUGH_SLOTS, "shared_us", shared, "ordered_us", ordered, "speedup", shared / ordered));
  return true;
}

static bool size_rows(struct results *results, struct gpu_device *device, size_t bytes, double seconds,
                      struct problem *problem) {
  static const enum workload_kind kinds[] = {WORKLOAD_AFFINE, WORKLOAD_EQUAL};
  struct workload_costs costs;
  if (!workload_measure(device, bytes, &costs, problem)) {
    return false;
  }
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    unsigned rounds;
    struct gpu_chain *chain = workload_chain(kinds[i], bytes, &costs, &rounds, problem);
    bool done = chain && kernel_row(results, device, chain, bytes, kinds[i], seconds, problem);
    gpu_chain_free(chain);
    if (!done) {
      return false;
    }
  }
  return true;
}

bool overlap_order(struct results *results, struct gpu_device *device, bool quick, double seconds, struct problem *problem) {
  static const size_t sizes[] = {1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 24 << 20};
  const size_t count = quick ? 1 : sizeof sizes / sizeof sizes[0];
  results_section(results, &order_section);
  for (size_t i = 0; i < count; i++) {
    if (!size_rows(results, device, sizes[i], seconds, problem)) {
      return false;
    }
  }
  return true;
}
