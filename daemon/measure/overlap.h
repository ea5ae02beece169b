/*
 * The arithmetic of overlap: what a pipeline's slots can win from copies and kernels that run at once. The daemon's status,
 * framectl and framebench all use it; nothing in it reads or writes anything.
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

/* In the order in which a frame passes them. */
enum overlap_engine { OVERLAP_H2D, OVERLAP_KERNEL, OVERLAP_D2H, OVERLAP_ENGINES };

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

/* -- what timelines are made of (tools/framectl/common/forecast.h) ---------------------------------------------------- */

/* The work with the times that are known of a single slot: its services take no longer than its measured round, and the
 * turnaround is the rest. Other work as it is. */
struct overlap_work overlap_settled(const struct overlap_work *work);
/* How many kernels run at once: 1 to OVERLAP_MAX_SLOTS. */
unsigned overlap_kernels(const struct overlap_work *work);
/* How long an engine that has begun with a frame takes no other. */
double overlap_taken(const struct overlap_work *work, enum overlap_engine engine);

#endif
