/*
 * The room measure/: numbers made of numbers; with wire/ the only room that tools may link.
 *
 * What bounds a pipeline, and the one change that would help most, from what was measured of it lately.
 *
 * The slots of a pipeline are customers that go round: taken by the source, served by the device, noticed by the host,
 * emptied by the reader, free again. Where most of them are found is what everything else waits for. (Of a step that takes
 * w of each frame's time at n frames a second, n x w slots are in it on average: Little's law.) What a change would win comes
 * from the arithmetic of overlap.h. Nothing here reads or writes anything.
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

/* What would help, for machines; the advice says it to people. */
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

enum standing { /* what the pipeline waits for at this moment */
                STANDING_NOT,
                STANDING_SOURCE,
                STANDING_DEVICE,
                STANDING_READER,
                STANDING_RESUME
};

/* As the warm-up measured them, in us; 0: it did not. */
struct diagnosis_costs {
  double alone;                     /* from frame to frame with a single one, which the device is asked for until done */
  double lane;                      /* of that, the lane's own work */
  double service[OVERLAP_ENGINES];  /* of such a frame */
  double together[OVERLAP_ENGINES]; /* from frame to frame on an engine that never rests; of copies, the other one works too */
};

struct gpu_costs;
struct diagnosis_costs diagnosis_costs_of(const struct gpu_costs *ns);

/* What is known of a model that takes part. */
struct diagnosis_model {
  unsigned instances; /* that may run at once; 0: there is no model */
  unsigned users;     /* slots of all pipelines that may run it; more than instances share these */
  unsigned most;      /* frames of one batch; 0 or 1: each goes by itself */
  double runs;        /* in these seconds, of all pipelines; 0: as many as frames */
  double batched;     /* frames of a run, on average */
  bool takes_rows;    /* its file takes any number of frames at once */
  bool is_single;     /* most of its weights are of float32 */
  bool is_batch;      /* a frame holds several inputs already */
};

struct diagnosis_figures {
  double seconds;           /* how long was measured */
  double busy_s;            /* of these, with a frame on the device; of several sessions the sum */
  double frames;            /* that were handed to the device */
  double dropped;           /* oldest, newest or late: frames that came too fast */
  double missed, offered;   /* whole results that slow readers missed, of those there were for them */
  double step[STEP_COUNT];  /* mean us a frame; of those frames that were timed, which need not be all. STEP_MODEL: of a run */
  double notice;            /* us until the lane takes notice of a frame, as a rule (the mean has the wait for those before) */
  unsigned slots, sessions; /* slots of each session; sessions: 0 counts as 1 */
  unsigned depth;           /* of these slots, how many may be past READY; 0 counts as all */
  unsigned kernels;         /* at once, on one device */
  unsigned devices;         /* among which the slots of a session are divided; 0 counts as 1 */
  double lane_share;        /* share of its time in which the lane works; 0 or less: unknown */
  double host_share;        /* of the lane's time that other pipelines leave, its share for this one; 0: as lane_share */
  double engine_share[OVERLAP_ENGINES]; /* share of its time for which an engine worked, for whatever pipeline; 0: unknown */
  bool on_processors;                   /* the processors are the device */
  bool is_short;                        /* of processors the machine has too few for all that runs there: */
  unsigned processors, ready;           /* it has so many, and so many threads were ready to run, */
  double waited, stolen;                /* for that share of the time some waited, and that share a hypervisor took */
  double in_fps;                        /* frames that come */
  enum standing standing;
  bool spins;            /* completion: spin */
  bool graphless;        /* graph: off, on a device that has graphs */
  bool lossless;         /* readers can hold the pipeline up */
  bool replies;          /* the producers are the readers */
  bool is_untimed;       /* no frame has times of its steps on the device: a kernel that stays there takes them */
  bool copies_by_kernel; /* no engine is needed: all of a frame's work on the device runs beside that of other slots' frames */
  struct diagnosis_costs costs;
  struct diagnosis_model model;
};

enum { DIAGNOSIS_ADVICE = 256, DIAGNOSIS_MOST_SLOTS = 16 };

struct diagnosis {
  double ratio, speedup, ideal_speedup; /* see overlap.h; 0 if nothing was on the device */
  enum bound bound_by;
  enum improvement improve;
  double gain;                   /* with the change, frames a second would be this many times as many; 1: nothing is foretold */
  struct overlap_work work;      /* microseconds, slots and turnaround of the model that says so: of one device, */
  unsigned devices;              /* of so many */
  char advice[DIAGNOSIS_ADVICE]; /* one sentence, without a full stop */
};

void diagnose(const struct diagnosis_figures *figures, struct diagnosis *diagnosis);
/* The model of the engines, the host and the time until it takes notice, whatever pace they were measured at: what would bound
 * the pipeline if frames were always there. */
struct overlap_work diagnosis_work(const struct diagnosis_figures *figures);

#endif
