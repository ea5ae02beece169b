/*
 * A session's books: the ledger and the histograms, written by its lane, read by anyone at any time.
 *
 * The lane changes `now` as frames move and publishes it once a turn under a sequence lock: the writer never waits, a
 * reader tries again when it met the writer, and what it gets balances.
 */
#ifndef FRAMED_FRAME_ACCOUNT_H
#define FRAMED_FRAME_ACCOUNT_H

#include <stdatomic.h>

#include "daemon/frame/slot.h"
#include "daemon/frame/trace_ring.h"
#include "daemon/measure/histogram.h"
#include "daemon/measure/ledger.h"

/*
 * Acks: up to which frame all of a producer's have their fate, told as one number: how many these are, from its first. For a
 * producer that keeps its frames until it knows that they need not be sent again.
 *
 * Frames that were cut off by an end of the client or of the pipeline never count: they are to be sent again. Frames of earlier
 * producers are forgotten when a new one begins.
 */

/* More than a session has slots: readers under `drop` may keep frames whose slots are used again. */
enum { ACKS_OPEN = 64 };

struct acks {
  unsigned producer;        /* whose frames */
  unsigned count;           /* of those without a fate, */
  uint64_t open[ACKS_OPEN]; /* oldest first */
  uint64_t next;            /* behind the newest that came */
};

void acks_open(struct acks *acks, const struct frame *frame);
void acks_close(struct acks *acks, const struct frame *frame, enum fate fate);
/* So many frames of this producer, from its first, have their fate. */
uint64_t acks_count(const struct acks *acks, unsigned producer);
/* Forgets frames that are open nowhere: nobody knows how much of a change was made when the process was killed. */
void acks_repair(struct acks *acks, const struct slot_ring *ring);

enum session_waiting {
  WAITING_FOR_NOTHING,  /* frames move */
  WAITING_FOR_PRODUCER, /* nobody is connected */
  WAITING_FOR_FRAMES,   /* connected, and no byte came for a while */
  WAITING_FOR_GPU,      /* all slots are on the device */
  WAITING_FOR_READER,   /* results wait for somebody to take them */
  WAITING_FOR_RESUME    /* held */
};

struct session_view { /* balanced: read under the lane's sequence lock */
  struct ledger ledger;
  int64_t began;             /* CLOCK_MONOTONIC ns of the first frame ever, 0 before it */
  int64_t last_in, last_out; /* likewise of the last frame that came, and of the last one that was emitted */
  bool attached;
  bool not_read; /* reply: for SESSION_PAUSE_S its client has taken no result, and its frames wait behind that */
  enum session_waiting waiting;
  int64_t busy;                  /* ns in which frames were on the device, up to `busy_since` */
  int64_t worked;                /* ns of the lane in turns that moved a frame */
  int64_t busy_since;            /* CLOCK_MONOTONIC ns; 0: none is there now */
  uint64_t submitted, completed; /* frames handed to the device and come back, ever */
  int64_t last_completion;       /* CLOCK_MONOTONIC ns of the last completion, or of what excuses one until then: the first
                                  * submit to an idle device, the end of a standstill */
};

enum { ACCOUNT_WORDS = sizeof(struct session_view) / sizeof(uint64_t) };

struct account {
  struct session_view now; /* the lane's own */
  struct histogram steps[STEP_COUNT];
  struct acks acks;
  _Atomic unsigned settling; /* the fate that is being counted, and 1; 0: none is */
  _Atomic uint32_t sequence;
  _Atomic uint64_t published[ACCOUNT_WORDS];
  struct trace_ring *_Atomic trace; /* set by the control loop while a trace is taken, or NULL */
};

/* [lane] Makes `now` what account_read() gives. */
void account_publish(struct account *account);
/* [any thread] The last published state. */
void account_read(const struct account *account, struct session_view *view);

/* [lane] Whether a trace is being taken, for which every frame should have the times of its steps. */
static inline bool account_is_traced(const struct account *account) {
  return atomic_load_explicit(&account->trace, memory_order_relaxed) != NULL;
}

/* [lane] A frame came in. */
void account_open(struct account *account, struct frame *frame);
/* [lane] An open frame gets its fate; emitted frames are recorded in the histograms of emit and total, and every frame in
 * the trace that is being taken. */
void account_settle(struct account *account, struct frame *frame, enum fate fate, int64_t now);
/* [lane] Before it stands anywhere that a frame has this fate, until account_close() has counted it. */
static inline void account_begin(struct account *account, enum fate fate) {
  atomic_store_explicit(&account->settling, (unsigned)fate + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}
/* [lane] The same for a frame that a sink has, and that is not written: that it has its fate stands elsewhere. */
void account_close(struct account *account, const struct frame *frame, enum fate fate, int64_t now);

/* Takes the books of a process before this one. False: they make no sense. */
bool account_adopt(struct account *account, const struct account *left);
/* What came and is neither in flight nor counted was in the middle of that when the process was killed: it gets the fate that
 * was being counted, else `lost`, or for FATE_COUNT it never came. False: that would be more than `most` frames. */
bool account_repair(struct account *account, unsigned settling, enum fate lost, uint64_t most);

#endif
