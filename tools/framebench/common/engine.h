/*
 * Frames back to back through gpu/gpu.h, as a session of the daemon runs them, with no socket on either side.
 *
 * An engine has the slots, their pinned memfd and a program; it may run again and again. It is used by one thread.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_ENGINE_H
#define FRAMED_FRAMEBENCH_COMMON_ENGINE_H

#include "daemon/measure/diagnosis.h"
#include "gpu/gpu.h"
#include "tools/framectl/common/forecast.h"
#include "tools/framectl/common/problem.h"

enum engine_completion {
  ENGINE_SPIN,    /* asks the device until the oldest frame is done */
  ENGINE_CALLBACK /* sleeps until the stream's callback has written to an eventfd */
};

struct engine_setup {
  const struct gpu_chain *chain; /* must outlive the engine */
  unsigned slots;
  enum engine_completion completion;
  bool pageable; /* memory that is not registered with the device */
  enum gpu_graph_choice graph;
  enum gpu_order_choice order;
  int timed_one_in;  /* as in struct gpu_options */
  bool weigh;        /* the same */
  const void *frame; /* what is in every input; NULL: zeros */
};

struct engine_figures {
  uint64_t frames;
  double wall; /* microseconds, from the first submit to the last result seen */
  /* Of those, frames that were seen done while all slots were in use: after each slot's first one, and before the last ones ran
   * out. What it takes to fill the slots is of the run, and nobody's who goes on. */
  uint64_t steady_frames;
  double steady;                   /* microseconds */
  double service[OVERLAP_ENGINES]; /* microseconds, of all frames together */
  double wait;                     /* the same, on the device and in no engine */
  uint64_t timed;                  /* frames that have a share in `service` and `wait` */
  bool side_by_side;               /* kernels make the copies too: what frames are on the device runs beside that of others */
  /* What only engine_run_for() tells. */
  double host;      /* microseconds in which this thread did not wait for the device; the question that says DONE is work */
  uint64_t weighed; /* frames that have a share in `host` */
  double notice;    /* microseconds from the end of a frame that was waited for until that was seen: the median of a run */
  uint64_t noticed; /* how many were */
};

struct engine;

/* What the warm-up measured of its frames, in microseconds; 0 where it did not. */
void engine_costs(const struct engine *engine, struct diagnosis_costs *costs);

/* Microseconds a frame while all slots are in use; of the whole run, where it was too short for that. */
double engine_each(const struct engine_figures *figures);

/* Warms up too. NULL on a problem. */
struct engine *engine_new(struct gpu_device *device, const struct engine_setup *setup, struct problem *problem);
struct engine *engine_free(struct engine *engine); /* NULL is fine; returns NULL */

/* Whether the engine replays graphs, and of how many frames one is timed. */
bool engine_graph(const struct engine *engine);
unsigned engine_timed_one_in(const struct engine *engine);

/* Runs `frames` frames. The first `span_frames` of them are timed in any case, and leave their spans, in microseconds after
 * the first submit, in `spans`, if that is not NULL; where the device has no times for them they stay as they are. */
bool engine_run(struct engine *engine, uint64_t frames, struct overlap_frame *spans, uint64_t span_frames,
                struct engine_figures *figures, struct problem *problem);

/* Runs frames until so much time has passed since the first one; none begins later. */
bool engine_run_time(struct engine *engine, int64_t ns, struct engine_figures *figures, struct problem *problem);

/* Runs as many frames as take about `seconds`, after some that tell how many that is. What the host does comes from a further
 * run, and where only some frames are timed, the service times from one in which all are: looking costs the wall nothing. Where
 * only some are, all that are timed come together, so a short run would hold more of them than their share or none; it begins
 * when it will hold none. */
bool engine_run_for(struct engine *engine, double seconds, struct engine_figures *figures, struct problem *problem);

/* How long to wait at `now` so that a run of `ns` holds no timed frame of a program that times one in so many; 0 where every
 * run of that length does. */
int64_t engine_pause(unsigned timed_one_in, int64_t now, int64_t ns);

/* Waits that long before a run of so many microseconds, or somewhat more. */
void engine_pause_for(unsigned timed_one_in, double us);

/* The ideal of the figures' own service times with so many slots, in microseconds a frame: forecast_wall() of many frames by
 * their number. `kernels` as in struct overlap_work. `copy`: what a copy of a frame takes while both directions of the link
 * are busy, or 0; with more than one slot, in which case the ideal has them busy, no copy's service counts as less. */
double engine_ideal(const struct engine_figures *figures, unsigned slots, unsigned kernels, double copy);

/* A chain of one stage with one parameter or none (`parameter` NULL) on a tensor of floats. NULL on a problem. */
struct gpu_chain *engine_chain(size_t frame_bytes, const char *stage, const char *parameter, double value,
                               struct problem *problem);

#endif
