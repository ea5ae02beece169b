/*
 * A ring of records of frames that got their fate, for a trace that is being taken.
 *
 * One lane writes and never waits: the newest record replaces the oldest. Any number of traces read, each from its own
 * position, and learn how many records were overwritten before they read them. The control loop allocates a ring and touches
 * its memory. Its session and the traces that read it hold it; the last of them frees it.
 */
#ifndef FRAMED_FRAME_TRACE_RING_H
#define FRAMED_FRAME_TRACE_RING_H

#include <stdatomic.h>

#include "daemon/frame/slot.h"
#include "daemon/measure/ledger.h"

/* A frame that got its fate. Times are CLOCK_MONOTONIC ns; 0: it never got there. */
struct trace_record {
  uint64_t sequence, epoch; /* identify the frame, as in results */
  int64_t first_byte, complete, dispatched, seen, settled;
  int64_t begin, copied_in, computed, copied_out; /* times on the device; all 0 if they were not measured */
  int64_t h2d, kernel, d2h;                       /* ns of each step on the device */
  int64_t modelled, model;                        /* end and ns of the models, within the kernels; 0: no model */
  uint64_t instance;                              /* instance of the last model, from 1 */
  uint64_t batch;                                 /* frames that went through the model together; 0: this one alone */
  uint32_t fate;                                  /* enum fate */
  uint32_t stream;                                /* index in its session; valid only if `begin` is set */
};

struct trace_ring;

/* Holds the last `capacity` records. Starts with one holder. NULL without memory. */
struct trace_ring *trace_ring_new(unsigned capacity);
struct trace_ring *trace_ring_hold(struct trace_ring *ring);
/* [any thread] Removes a holder. Accepts NULL; returns NULL. */
struct trace_ring *trace_ring_drop(struct trace_ring *ring);

/* [lane] Records a frame that got its fate. */
void trace_ring_append(struct trace_ring *ring, const struct frame *frame, enum fate fate, int64_t now);

/* [any thread] The position behind the newest record. */
uint64_t trace_ring_end(const struct trace_ring *ring);
/* [any thread] Copies up to `room` records from `*position` on and advances it. Adds the number of records that were
 * overwritten to `*overwritten`. Returns the number of copied records; 0: there are no more. */
unsigned trace_ring_read(const struct trace_ring *ring, uint64_t *position, struct trace_record *records, unsigned room,
                         uint64_t *overwritten);

#endif
