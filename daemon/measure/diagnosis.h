/*
 * The room measure/: numbers computed from numbers; with wire/ the only room that tools may link.
 *
 * Finds the bottleneck of a pipeline from recent measurements, and the one change that would help most.
 *
 * Slots go round: filled by the source, served by the device, noticed by the host, emptied by the reader, free again. The place
 * where most of them are is the bottleneck. By Little's law, a step that takes w of each frame's time at n frames a second has
 * n x w slots on average. The gain of a change is computed by the model of overlap.h. Nothing here does input or output.
 */
#ifndef FRAMED_MEASURE_DIAGNOSIS_H
#define FRAMED_MEASURE_DIAGNOSIS_H

#include <stdbool.h>

#include "daemon/measure/ledger.h"
#include "daemon/measure/overlap.h"

/* The first are the engines, in the order of enum overlap_engine. */
enum bound {
  BOUND_H2D,
  BOUND_KERNEL,
  BOUND_D2H,
  BOUND_HOST,
  BOUND_SOURCE,
  BOUND_READER,
  BOUND_PROCESSORS,
  BOUND_MODEL,
  BOUND_NOTHING,
  BOUND_COUNT
};

extern const char *const bound_names[BOUND_COUNT];

/* The advised change, for programs; the advice has the text for people. */
enum improvement {
  IMPROVE_NONE,
  IMPROVE_SLOTS,
  IMPROVE_SPIN,
  IMPROVE_BYTES_IN,
  IMPROVE_STAGES,
  IMPROVE_BYTES_OUT,
  IMPROVE_LANE_BYTES,
  IMPROVE_GRAPH,
  IMPROVE_READER,
  IMPROVE_PROCESSORS,
  IMPROVE_INSTANCES,
  IMPROVE_HALF,
  IMPROVE_BATCH,
  IMPROVE_MODEL,
  IMPROVE_COUNT
};

extern const char *const improvement_names[IMPROVE_COUNT];

enum standing { /* what the pipeline waits for right now */
                STANDING_NOT,
                STANDING_SOURCE,
                STANDING_DEVICE,
                STANDING_READER,
                STANDING_RESUME
};

/* Times of the warm-up in us; 0: not measured. */
struct diagnosis_costs {
  double alone;                     /* from frame to frame with a single frame and polling */
  double lane;                      /* of that, the lane's own work */
  double service[OVERLAP_ENGINES];  /* of such a frame */
  double together[OVERLAP_ENGINES]; /* from frame to frame on a busy engine; for copies, with the other direction busy, too */
};

struct gpu_costs;
struct diagnosis_costs diagnosis_costs_of(const struct gpu_costs *ns);

/* A model that is part of the stages. */
struct diagnosis_model {
  unsigned instances; /* maximum that may run at once; 0: there is no model */
  unsigned users;     /* slots of all pipelines that use it; they may exceed the instances */
  unsigned most;      /* frames of one batch; 0 or 1: no batches */
  double runs;        /* in these seconds, of all pipelines; 0: as many as frames */
  double batched;     /* frames of a run, on average */
  bool takes_rows;    /* its file accepts any number of frames at once */
  bool is_single;     /* most of its weights are float32 */
  bool is_batch;      /* a frame has several inputs already */
};

struct diagnosis_figures {
  double seconds;         /* length of the measurement */
  double busy_s;          /* of these, with a frame on the device; the sum over sessions */
  double frames;          /* submitted to the device */
  double dropped;         /* oldest, newest or late: frames that came too fast */
  double missed, offered; /* results that slow readers missed, and results offered to readers */
  /* Mean us per frame, of the frames that were timed. STEP_MODEL: per run. */
  double step[STEP_COUNT];
  /* Typical us until the lane notices a result. The mean would include waits for earlier frames. */
  double notice;
  unsigned slots, sessions; /* slots of each session; sessions: 0 counts as 1 */
  unsigned depth;           /* slots that may be past READY; 0: all */
  unsigned kernels;         /* that run at once on one device */
  unsigned devices;         /* that share the slots of a session; 0 counts as 1 */
  double lane_share;        /* busy share of the lane; 0 or less: unknown */
  /* Share of the lane's time for this pipeline, of the time that others leave; 0: use lane_share. */
  double host_share;
  double engine_share[OVERLAP_ENGINES]; /* busy share of each engine, for all pipelines; 0: unknown */
  bool on_processors;                   /* the device is the processors */
  bool is_short;                        /* the machine lacks processors */
  unsigned processors, ready;           /* its processors, and threads that were ready to run */
  double waited, stolen;                /* share of time in which some thread waited, and share taken by a hypervisor */
  double in_fps;                        /* incoming frames a second */
  enum standing standing;
  bool spins;      /* completion: spin */
  bool graphless;  /* graph: off, on a device that supports graphs */
  bool lossless;   /* readers can stop the pipeline */
  bool replies;    /* the producers are the readers */
  bool is_untimed; /* frames have no device times, because a persistent kernel runs them */
  /* No copy engine is used: the device work of a frame runs next to that of other slots. */
  bool copies_by_kernel;
  struct diagnosis_costs costs;
  struct diagnosis_model model;
};

enum { DIAGNOSIS_ADVICE = 256, DIAGNOSIS_MOST_SLOTS = 16 };

struct diagnosis {
  double ratio, speedup, ideal_speedup; /* see overlap.h; 0 if nothing was on the device */
  enum bound bound_by;
  enum improvement improve;
  double gain;                   /* predicted factor in frames a second; 1: cannot be predicted */
  struct overlap_work work;      /* the model behind it, in microseconds, for one device */
  unsigned devices;              /* number of devices */
  char advice[DIAGNOSIS_ADVICE]; /* one sentence without a full stop */
};

void diagnose(const struct diagnosis_figures *figures, struct diagnosis *diagnosis);
/* Input of the overlap model (overlap.h) at full load: times of the engines, of the host, and until the lane notices a
 * completion. */
struct overlap_work diagnosis_work(const struct diagnosis_figures *figures);

#endif
