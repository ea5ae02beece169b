/*
 * The arithmetic of overlap: what a pipeline's slots can win from copies and kernels that run at once. The daemon's status,
 * framectl and framebench all take it from here; nothing in it reads or writes anything.
 *
 * The model: three engines in a row (copy in, kernel, copy out), each serving one frame at a time, in order; the kernel's may
 * serve several (CPU workers). A slot carries one frame at a time: its next copy in waits for its last copy out, and for the
 * turnaround, in which the host takes notice. Before its copy in a frame takes some work of the host, whose one thread does
 * that for one frame at a time. An engine that never rests may go on with the next frame sooner or later than a service takes:
 * kernels begin where others leave parts of the device, and copies take longer while the other direction of the link is busy
 * (framebench's ideal counts none as shorter than that). With a single slot a frame has the device to itself; where what it
 * then takes is known, that is the slot's round. Frames take the slots in turn and are there from the start. Times are in any
 * one unit.
 */
#ifndef FRAMED_MEASURE_OVERLAP_H
#define FRAMED_MEASURE_OVERLAP_H

#include <stdint.h>

#define OVERLAP_ENGINE_LIST(X)                                                                                                 \
  X(H2D, "h2d", "copy in")                                                                                                     \
  X(KERNEL, "kernel", "kernel")                                                                                                \
  X(D2H, "d2h", "copy out")

enum overlap_engine {
#define X(name, key, title) OVERLAP_##name,
  OVERLAP_ENGINE_LIST(X)
#undef X
      OVERLAP_ENGINES
};

extern const char *const overlap_engine_keys[OVERLAP_ENGINES];   /* "h2d" */
extern const char *const overlap_engine_titles[OVERLAP_ENGINES]; /* "copy in" */

enum { OVERLAP_MAX_SLOTS = 64, OVERLAP_UNLIMITED = 0 };

struct overlap_work {
  double service[OVERLAP_ENGINES]; /* of one frame, or of one chunk of it */
  unsigned kernels;                /* that run at once; 0 counts as 1, more than OVERLAP_MAX_SLOTS as that */
  /* From the start of one frame's service until the engine may start the next one's, if that differs from the service; 0: it
   * does not. Less: a kernel that leaves parts of the device free before it ends. More: copies that slow each other down. One
   * OVERLAP_MAX_SLOTS-th of it: as many at once as there can be slots. */
  double succession[OVERLAP_ENGINES];
  double turnaround; /* from a slot's copy out until the host may take it again; less than 0, but no less than minus `host`,
                      * where some of the host's work on a frame goes on beside its copy in */
  double host;       /* the host's own work on a frame */
  double alone;      /* with one slot: from frame to frame, if that was measured; 0: what the rest comes to */
  unsigned slots;    /* 1 to OVERLAP_MAX_SLOTS, or OVERLAP_UNLIMITED: no frame ever waits for a slot */
};

/* -- figures that need no timeline -------------------------------------------------------------------------------- */

double overlap_services(const double service[OVERLAP_ENGINES]); /* their sum */
/* The service times of one frame together. */
double overlap_sum(const struct overlap_work *work);
/* The engine that can take the fewest frames a second: the one with the longest service, the first of equals. */
enum overlap_engine overlap_longest(const struct overlap_work *work);
/* The least time between two frames that any number of slots allows: the longest service, of kernels as many at once, or the
 * host's work. */
double overlap_period(const struct overlap_work *work);
/* From a slot's copy in to its next one, if it waits for no engine: all service times, turnaround and host. */
double overlap_round(const struct overlap_work *work);
/* How much faster many frames can go at best than one engine after the other: the sum over the longest service, whatever the
 * host does. 1 if there is no work. */
double overlap_ideal_speedup(const struct overlap_work *work);
/* The share of the service times that was hidden behind others: 1 - wall / sum; 0 where nothing was, as when the wall also
 * had pauses in it. */
double overlap_ratio(double wall, double sum);

/* -- the timeline --------------------------------------------------------------------------------------------------- */

struct overlap_span {
  double begin, end;
};

struct overlap_frame {
  uint64_t number; /* from 0 */
  unsigned slot;   /* with OVERLAP_UNLIMITED the frame's number modulo OVERLAP_MAX_SLOTS, for want of any */
  struct overlap_span spans[OVERLAP_ENGINES];
};

struct overlap_timeline { /* to start by overlap_start(); its fields are overlap.c's own */
  struct overlap_work work;
  uint64_t next;
  double host_free, copy_in_free, copy_out_free;
  double kernel_free[OVERLAP_MAX_SLOTS], slot_free[OVERLAP_MAX_SLOTS];
};

void overlap_start(struct overlap_timeline *timeline, const struct overlap_work *work);
/* When the next frame is served, frame by frame without end. */
struct overlap_frame overlap_next(struct overlap_timeline *timeline);
/* From the first copy in to the last copy out of so many frames. */
double overlap_wall(const struct overlap_work *work, uint64_t frames);

/* -- the plan ------------------------------------------------------------------------------------------------------- */

struct overlap_plan {
  double serial;            /* wall with one slot */
  double wall;              /* wall with the work's slots */
  double speedup;           /* serial / wall; 1 if there is no work */
  double ratio;             /* overlap_ratio() of the wall */
  double ideal_speedup;     /* of frames without end, without turnaround */
  double bound;             /* wall that no number of slots beats */
  double bound_speedup;     /* serial / bound */
  unsigned slots_for_bound; /* the fewest that reach it; 0: more than OVERLAP_MAX_SLOTS */
};

/* `frames` is 1 or more. Takes time in proportion to frames x slots_for_bound. */
struct overlap_plan overlap_plan(const struct overlap_work *work, uint64_t frames);

#endif
