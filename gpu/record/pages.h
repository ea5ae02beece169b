/*
 * The memory through which a lane and a worker pass frames: no message is sent for a frame, and no system call is made for one
 * unless the other side sleeps.
 *
 *   - bell page: one a lane, made by the daemon. Workers set the bit of a program that has results, and ring an eventfd if the
 *     lane sleeps.
 *   - line page: one for each lane and worker. The lane sets the bit of a program that has new frames, and wakes the worker's
 *     thread, if it sleeps, by a futex.
 *   - program page: one a program. Frames go in by a ring with room for all slots; what became of a slot's frame stands in the
 *     slot's place, and its `word` is then the ticket that the frame came with.
 *
 * Each field has one writer. Whoever reads what the other side wrote checks it first. None of these pages is registered with a
 * device, so that a kernel that writes where it must not cannot reach them. The mailbox of a kernel that stays (mailbox.h) is
 * the exception: there a lane gives frames to the kernel and sees that they are done, without the worker.
 */
#ifndef FRAMED_GPU_RECORD_PAGES_H
#define FRAMED_GPU_RECORD_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu/gpu.h"
#include "gpu/record/figures.h"

enum { PAGES_WORDS = 16, PAGES_PROGRAMS = 64 * PAGES_WORDS, PAGES_LINE = 128 };

struct bell_page {
  _Alignas(PAGES_LINE) _Atomic uint32_t sleeping; /* the lane's */
  _Alignas(PAGES_LINE) _Atomic uint64_t bits[PAGES_WORDS];
};

struct line_page {
  _Alignas(PAGES_LINE) _Atomic uint32_t sleeping; /* the worker's */
  _Alignas(PAGES_LINE) _Atomic uint32_t calls;    /* counts up with each wake-up; the futex */
  _Alignas(PAGES_LINE) _Atomic uint64_t bits[PAGES_WORDS];
};

enum program_flags { PROGRAM_RESTART = 1, PROGRAM_NOTIFY = 2, PROGRAM_TIMED = 4, PROGRAM_AGAIN = 8 };

struct program_frame {
  uint64_t ticket, sequence;
  int64_t deadline;
  uint32_t slot, flags;
};

enum program_outcome { PROGRAM_COMPUTED, PROGRAM_LATE, PROGRAM_REFUSED, PROGRAM_OUTCOMES };

struct program_result {
  _Alignas(PAGES_LINE) _Atomic uint64_t word; /* written last */
  uint32_t outcome, has_times;
  struct gpu_times times;
  char refusal[STAGE_TEXT];
};

struct program_page {
  _Alignas(PAGES_LINE) _Atomic uint32_t tail; /* frames that went in; the lane's */
  /* The lane sleeps until the mailbox answers this number, in the upper half, for the slot in the lower one. The lane's. */
  _Alignas(PAGES_LINE) _Atomic uint64_t awaited;
  _Alignas(PAGES_LINE) struct program_frame ring[GPU_MAX_SLOTS];
  struct program_result results[GPU_MAX_SLOTS]; /* the worker's */
};

/* What a worker counts, for the daemon to read at any time; one a worker. */
enum { WORKER_MODELS = 64, WORKER_INSTANCES = 64, WORKER_BATCHES = 64 };

struct model_counts {
  _Atomic uint64_t users; /* slots of all pipelines that may run it */
  _Atomic uint64_t served[WORKER_INSTANCES], batches[WORKER_BATCHES];
};

struct worker_counts {
  _Atomic uint64_t available, total; /* memory of the device in bytes; both 0: it does not say */
  _Atomic uint64_t allocated;        /* by programs */
  _Atomic uint32_t wants_figures;    /* the daemon's: somebody has asked for them lately */
  _Atomic uint32_t has_figures;
  _Atomic double figures[NVML_FIGURES]; /* what the driver says; NAN: it does not */
  _Atomic int64_t canary_period;        /* the daemon's: how often the device has to answer, in ns; 0: not told yet */
  _Atomic int64_t answered;             /* when the device last did (CLOCK_MONOTONIC ns), */
  _Atomic int64_t answer_took;          /* and for how long it was waited for */
  struct model_counts models[WORKER_MODELS];
};

static inline void pages_set(_Atomic uint64_t *bits, unsigned number) {
  atomic_fetch_or_explicit(&bits[number / 64], UINT64_C(1) << number % 64, memory_order_acq_rel);
}

static inline bool pages_any(_Atomic uint64_t *bits) {
  uint64_t any = 0;
  for (unsigned i = 0; i < PAGES_WORDS; i++) {
    any |= atomic_load_explicit(&bits[i], memory_order_acquire);
  }
  return any != 0;
}

#endif
