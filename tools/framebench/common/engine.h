/*
 * Runs frames back to back through gpu/gpu.h, like a session of the daemon, but without sockets.
 *
 * An engine owns the slots, their pinned memfd and a program, and can run repeatedly. Only one thread may use it.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_ENGINE_H
#define FRAMED_FRAMEBENCH_COMMON_ENGINE_H

#include "daemon/measure/diagnosis.h"
#include "gpu/gpu.h"
#include "tools/framectl/common/forecast.h"
#include "tools/framectl/common/problem.h"

enum engine_completion {
  ENGINE_SPIN,    /* polls the device until the oldest frame is done */
  ENGINE_CALLBACK /* sleeps until the stream's callback has written to an eventfd */
};

struct engine_setup {
  const struct gpu_chain *chain; /* must outlive the engine */
  unsigned slots;
  enum engine_completion completion;
  bool pageable; /* memory is not registered with the device */
  enum gpu_graph_choice graph;
  enum gpu_order_choice order;
  int timed_one_in;  /* as in struct gpu_options */
  bool weigh;        /* as in struct gpu_options */
  const void *frame; /* the content of every input; NULL: zeros */
};

struct engine_figures {
  uint64_t frames;
  double wall; /* microseconds, from the first submission to the last result */
  /*
   * The frames that finished while all slots were in use: after each slot's first frame, and before the last frames. Filling
   * the slots happens once, so it does not count in a steady state.
   */
  uint64_t steady_frames;
  double steady;                   /* microseconds */
  double service[OVERLAP_ENGINES]; /* microseconds, of all frames together */
  double wait;                     /* microseconds on the device outside any engine, of all frames together */
  uint64_t timed;                  /* frames that contribute to `service` and `wait` */
  bool side_by_side;               /* kernels make the copies, so all steps of different frames can run side by side */
  /* Only engine_run_for() measures the following. */
  double host;      /* microseconds in which this thread did not wait for the device; the successful query counts as work */
  uint64_t weighed; /* frames that contribute to `host` */
  double notice;    /* microseconds from a frame's end until the host saw it: the median over frames that were waited for */
  uint64_t noticed; /* the number of these frames */
};

struct engine;

/* The costs that the warm-up measured, in microseconds; 0 where it measured none. */
void engine_costs(const struct engine *engine, struct diagnosis_costs *costs);

/* Microseconds per frame while all slots are in use, or of the whole run if that was too short. */
double engine_each(const struct engine_figures *figures);

/* Includes a warm-up. NULL on a problem. */
struct engine *engine_new(struct gpu_device *device, const struct engine_setup *setup, struct problem *problem);
struct engine *engine_free(struct engine *engine); /* NULL is valid; returns NULL */

/* Whether the engine replays graphs, and which fraction of frames is timed: one in so many. */
bool engine_graph(const struct engine *engine);
unsigned engine_timed_one_in(const struct engine *engine);

/*
 * Runs `frames` frames. The first `span_frames` are always timed, and `spans`, if not NULL, receives their times in
 * microseconds after the first submission. If the device cannot time them, `spans` is unchanged.
 */
bool engine_run(struct engine *engine, uint64_t frames, struct overlap_frame *spans, uint64_t span_frames,
                struct engine_figures *figures, struct problem *problem);

/* Runs frames for `ns` nanoseconds after the first one begins; no frame begins later. */
bool engine_run_time(struct engine *engine, int64_t ns, struct engine_figures *figures, struct problem *problem);

/*
 * Runs as many frames as take about `seconds`, estimated from shorter runs. Further runs measure the host's work and, if only
 * some frames are timed, the service times, so that measuring does not slow the main run. Timed frames come in groups, so a
 * short run could hold too many or none. It begins at a moment when it will hold none.
 */
bool engine_run_for(struct engine *engine, double seconds, struct engine_figures *figures, struct problem *problem);

/*
 * How long to wait at `now` so that a run of `ns` has no timed frame of a program that times one frame in `timed_one_in`. 0 if
 * every run of that length has some.
 */
int64_t engine_pause(unsigned timed_one_in, int64_t now, int64_t ns);

/* Waits that long before a run of `us` microseconds, with some reserve. */
void engine_pause_for(unsigned timed_one_in, double us);

/*
 * The ideal of the run's own service times with `slots` slots, in microseconds per frame: forecast_wall() of many frames by
 * their number. `kernels` as in struct overlap_work. `copy`: the time of a frame's copy while both directions of the link are
 * busy, or 0. With more than one slot both are busy, so no copy counts as shorter.
 */
double engine_ideal(const struct engine_figures *figures, unsigned slots, unsigned kernels, double copy);

/* A chain of one stage on a tensor of floats, with one parameter or none (`parameter` NULL). NULL on a problem. */
struct gpu_chain *engine_chain(size_t frame_bytes, const char *stage, const char *parameter, double value,
                               struct problem *problem);

#endif
