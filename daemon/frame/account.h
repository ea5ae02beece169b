/*
 * The account of a session: its ledger and histograms. Its lane writes them, any thread reads them at any time.
 *
 * The lane changes `now` as frames move and publishes it once a turn under a sequence lock. The writer never waits. A reader
 * that meets a write tries again, so every copy it gets balances.
 */
#ifndef FRAMED_FRAME_ACCOUNT_H
#define FRAMED_FRAME_ACCOUNT_H

#include <stdatomic.h>

#include "daemon/frame/slot.h"
#include "daemon/frame/trace_ring.h"
#include "daemon/measure/histogram.h"
#include "daemon/measure/ledger.h"

/*
 * Acknowledgements. A producer may keep each frame until it knows that the frame need not be sent again. It gets one number:
 * how many of its frames, from the first one on, all have their fate.
 *
 * Frames that the end of the client or of the pipeline cut off never count, because they must be sent again. When a new
 * producer begins, the frames of the previous one are forgotten.
 */

/* More than the slots of a session: slow readers under `drop` may keep frames whose slots are already in use again. */
enum { ACKS_OPEN = 64 };

struct acks {
  unsigned producer;        /* whose frames these are */
  unsigned count;           /* frames without a fate */
  uint64_t open[ACKS_OPEN]; /* their sequences, oldest first */
  uint64_t next;            /* one past the newest frame that came */
};

void acks_open(struct acks *acks, const struct frame *frame);
void acks_close(struct acks *acks, const struct frame *frame, enum fate fate);
/* The number of frames of this producer, from its first one on, that all have their fate. */
uint64_t acks_count(const struct acks *acks, unsigned producer);
/* After a takeover: removes frames that no slot holds, because a killed process may have stopped in the middle of a change. */
void acks_repair(struct acks *acks, const struct slot_ring *ring);

enum session_waiting {
  WAITING_FOR_NOTHING,  /* frames move */
  WAITING_FOR_PRODUCER, /* no producer is connected */
  WAITING_FOR_FRAMES,   /* a producer is connected, but sent no byte for a while */
  WAITING_FOR_GPU,      /* all slots are on the device */
  WAITING_FOR_READER,   /* results wait for a reader */
  WAITING_FOR_RESUME    /* paused */
};

struct session_view { /* a balanced copy: read under the sequence lock */
  struct ledger ledger;
  int64_t began;             /* CLOCK_MONOTONIC ns of the first frame; 0: none yet */
  int64_t last_in, last_out; /* CLOCK_MONOTONIC ns of the last frame received, and of the last one emitted */
  bool attached;
  /* reply: the client has read no result for SESSION_PAUSE_S, and its frames wait because of that. */
  bool not_read;
  enum session_waiting waiting;
  int64_t busy;                  /* ns in which frames were on the device, up to `busy_since` */
  int64_t worked;                /* ns that the lane spent in turns that moved a frame */
  int64_t busy_since;            /* CLOCK_MONOTONIC ns; 0: no frame is on the device */
  uint64_t submitted, completed; /* frames submitted to the device and returned by it, ever */
  /* CLOCK_MONOTONIC ns of the last completion. Later events that excuse a wait also set it: a submission to an idle device, or
   * the end of a stop of the process. */
  int64_t last_completion;
};

enum { ACCOUNT_WORDS = sizeof(struct session_view) / sizeof(uint64_t) };

struct account {
  struct session_view now; /* only the lane reads and writes this copy */
  struct histogram steps[STEP_COUNT];
  struct acks acks;
  _Atomic unsigned settling; /* the fate being counted, plus 1; 0: none */
  _Atomic uint32_t sequence;
  _Atomic uint64_t published[ACCOUNT_WORDS];
  struct trace_ring *_Atomic trace; /* set by the control loop while a trace is taken, else NULL */
};

/* [lane] Publishes `now` for account_read(). */
void account_publish(struct account *account);
/* [any thread] Copies the last published state. */
void account_read(const struct account *account, struct session_view *view);

/* [lane] True while a trace is taken: every frame should then have the times of its steps. */
static inline bool account_is_traced(const struct account *account) {
  return atomic_load_explicit(&account->trace, memory_order_relaxed) != NULL;
}

/* [lane] A frame came in. */
void account_open(struct account *account, struct frame *frame);
/* [lane] Sets the fate of an open frame. Emitted frames go into the histograms of emit and total, all frames into a trace. */
void account_settle(struct account *account, struct frame *frame, enum fate fate, int64_t now);
/* [lane] Called before the fate is stored anywhere. From here until account_close() a takeover knows which fate was being
 * counted. */
static inline void account_begin(struct account *account, enum fate fate) {
  atomic_store_explicit(&account->settling, (unsigned)fate + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}
/* [lane] Counts the fate of a frame that its sink settled. The frame itself is not written, because its sink may read it. */
void account_close(struct account *account, const struct frame *frame, enum fate fate, int64_t now);

/* Takes the account of the previous process. Returns false if it is not valid. */
bool account_adopt(struct account *account, const struct account *left);
/* Repairs an account that a kill interrupted. Frames that are neither in flight nor counted get the fate `settling - 1`, or
 * else `lost`. With FATE_COUNT for `lost` they are removed from `in`. Returns false if more than `most` frames are missing. */
bool account_repair(struct account *account, unsigned settling, enum fate lost, uint64_t most);

#endif
