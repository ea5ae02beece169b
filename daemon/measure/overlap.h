/*
 * The model of overlap: what slots gain when copies and kernels run at the same time. Used by the daemon's status, framectl and
 * framebench. Nothing here does input or output.
 *
 * The model. There are three engines in a row: copy in, kernel, copy out. Each serves one frame at a time, in order; the kernel
 * engine may serve several (CPU threads). A slot carries one frame at a time. Its next copy in waits for its last copy out and
 * for the turnaround, in which the host notices the result. Before the copy in, the host's single thread works on the frame.
 *
 * An engine that never rests may start the next frame earlier or later than after one service time. Kernels start in free parts
 * of the device, and copies are slower while the other direction is busy. framebench's ideal never counts the latter as faster.
 * With a single slot the frame has the device to itself; if that time was measured, it is the slot's round. Frames take the
 * slots in turn and are there from the start. All times use the same unit.
 */
#ifndef FRAMED_MEASURE_OVERLAP_H
#define FRAMED_MEASURE_OVERLAP_H

#include <stdint.h>

/* In the order in which a frame passes them. */
enum overlap_engine { OVERLAP_H2D, OVERLAP_KERNEL, OVERLAP_D2H, OVERLAP_ENGINES };

enum { OVERLAP_MAX_SLOTS = 64, OVERLAP_UNLIMITED = 0 };

struct overlap_work {
  double service[OVERLAP_ENGINES]; /* of one frame, or of one chunk of a frame */
  unsigned kernels;                /* that run at once; 0 counts as 1; limited to OVERLAP_MAX_SLOTS */
  /* Time from the start of a service until the engine may start the next frame, if that differs from the service; 0: it does
   * not. Less: a kernel leaves parts of the device free. More: copies slow each other down. Service / OVERLAP_MAX_SLOTS: no
   * limit. */
  double succession[OVERLAP_ENGINES];
  /* From a slot's copy out until the host may use it again. Negative, down to minus `host`, if part of the host's work overlaps
   * with the copy in. */
  double turnaround;
  double host;    /* the host's own work on a frame */
  double alone;   /* time per frame with one slot, if measured; 0: sum of the other times */
  unsigned slots; /* 1 to OVERLAP_MAX_SLOTS, or OVERLAP_UNLIMITED: frames never wait for a slot */
};

double overlap_services(const double service[OVERLAP_ENGINES]); /* their sum */
/* The sum of the service times of one frame. */
double overlap_sum(const struct overlap_work *work);
/* The engine with the longest service time; the first if equal. */
enum overlap_engine overlap_longest(const struct overlap_work *work);
/* The least time per frame with any number of slots: the longest service, divided by the kernels at once, or the host's
 * work. */
double overlap_period(const struct overlap_work *work);
/* From a slot's copy in to its next one without waiting: all service times, turnaround and host. */
double overlap_round(const struct overlap_work *work);
/* The best speedup over running one engine after the other: the sum over the longest service, without the host. 1 if there is
 * no work. */
double overlap_ideal_speedup(const struct overlap_work *work);
/* The share of the service times that overlapped: 1 - wall / sum; 0 if nothing did, or if the wall time included pauses. */
double overlap_ratio(double wall, double sum);

/* -- for timelines (tools/framectl/common/forecast.h) ----------------------------------------------------------------- */

/* For one slot with a measured round: limits the services to that round, and the turnaround is the rest. Otherwise
 * unchanged. */
struct overlap_work overlap_settled(const struct overlap_work *work);
/* Kernels that run at once: 1 to OVERLAP_MAX_SLOTS. */
unsigned overlap_kernels(const struct overlap_work *work);
/* How long an engine takes no other frame after it started one. */
double overlap_taken(const struct overlap_work *work, enum overlap_engine engine);

#endif
