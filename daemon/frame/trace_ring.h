/*
 * Where a session's lane leaves what became of its frames, for a trace that is being taken.
 *
 * One lane writes and never waits: the newest record takes the place of the oldest. Any number of traces read, each from a
 * position of its own, and learn how many records were overwritten before they came to them. A ring is made and its memory
 * touched on the control loop; it is held by its session and by the traces that read it, and goes with the last of them.
 */
#ifndef FRAMED_FRAME_TRACE_RING_H
#define FRAMED_FRAME_TRACE_RING_H

#include <stdatomic.h>

#include "daemon/frame/slot.h"
#include "daemon/measure/ledger.h"

/* A frame that has its fate. Times are CLOCK_MONOTONIC ns; 0: it never got there. */
struct trace_record {
  uint64_t sequence, epoch; /* which frame of which producer: its name in results, too */
  int64_t first_byte, complete, dispatched, seen, settled;
  int64_t begin, copied_in, computed, copied_out; /* on the device; all 0 if that was not timed */
  int64_t h2d, kernel, d2h;                       /* ns of service, each up to the end of its step */
  int64_t modelled, model;                        /* the same of models, within the kernels; 0: there is none */
  uint64_t instance;                              /* which of the last model, from 1 */
  uint64_t batch;                                 /* frames that went through it together; 0: this one by itself */
  uint32_t fate;                                  /* enum fate */
  uint32_t stream;                                /* index in its session; meaningless unless `begin` is set */
};

struct trace_ring;

/* Holds the last `capacity` records; made with one holder. NULL if there is no memory. */
struct trace_ring *trace_ring_new(unsigned capacity);
struct trace_ring *trace_ring_hold(struct trace_ring *ring);
/* From any thread: lets go. NULL is fine; returns NULL. */
struct trace_ring *trace_ring_drop(struct trace_ring *ring);

/* [lane] The frame got its fate now. */
void trace_ring_append(struct trace_ring *ring, const struct frame *frame, enum fate fate, int64_t now);

/* [any thread] The position behind the newest record. */
uint64_t trace_ring_end(const struct trace_ring *ring);
/* [any thread] Copies up to `room` records from `*position` on and moves it behind them; adds to `*overwritten` how many of
 * those before it were lost. Returns how many were copied; 0: there are no more. */
unsigned trace_ring_read(const struct trace_ring *ring, uint64_t *position, struct trace_record *records, unsigned room,
                         uint64_t *overwritten);

#endif
