/*
 * A slot: one buffer set of a session, and the frame in it.
 *
 * FREE -> FILLING -> READY -> RUNNING -> DONE -> EMITTING -> FREE, and RUNNING -> FAILED. All transitions stand in one table in
 * slot.c and happen only in slot_move(), which moves the slot between the queues of its ring as well: a slot is on exactly the
 * queue that its state names. A frame lives in its slot and nowhere else; while the slot is EMITTING nobody writes to the
 * frame, so that the sink may read it on a lane of its own. Queues keep the order in which frames came. The only exception is
 * what a process before this one left: slot_ring_pass() and slot_ring_arrange() put it in its place, before the first turn.
 */
#ifndef FRAMED_FRAME_SLOT_H
#define FRAMED_FRAME_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/measure/ledger.h"
#include "daemon/state/codec.h"
#include "daemon/wire/native_wire.h"
#include "daemon/wire/protocol.h"
#include "gpu/gpu.h"

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_RUNNING, SLOT_DONE, SLOT_EMITTING, SLOT_FAILED, SLOT_STATES };

extern const char *const slot_state_names[SLOT_STATES];

/* One frame on its way. Times are CLOCK_MONOTONIC ns, 0 before the frame got there. */
struct frame {
  uint64_t sequence;      /* counts the frames of its producer from 0 */
  unsigned producer;      /* counts the producers of its session from 1 */
  uint64_t epoch;         /* of its producer: see struct receive */
  bool open;              /* it came in, has no fate yet, and is not at the sink, which knows that of its results */
  enum fate fate;         /* once it has one, and its slot is free */
  bool restart;           /* the first of its producer: state of stages starts anew */
  struct frame_rate rate; /* of its producer */
  int64_t began; /* its capture, if its producer said when, or its first byte: its latency and deadline run from here */
  int64_t first_byte, complete, dispatched, seen;
  int64_t deadline;        /* its own; 0: the pipeline's */
  uint64_t tag;            /* the number that its producer gave it, */
  uint32_t flags;          /* and what it wants in the flags of the result */
  uint64_t missing;        /* once its result is offered: how many frames before it have none, since the last that has */
  unsigned stream;         /* that of its slot, once dispatched */
  struct gpu_times device; /* once seen; `begin` is 0 if that was not timed */
  bool again;              /* it was on a device that was lost, and runs once more, */
  bool suspect;            /* alone, since that device failed (retry.h) */
  unsigned failures;       /* how many times it was alone on a device that failed */
};

struct slot {
  enum slot_state state;
  unsigned index; /* of its stream in the program */
  unsigned char *input, *output;
  struct frame frame;
  bool owed; /* its frame is at the sink, which has not told its fate yet */
};

/* The slots in one state, oldest first; a ring, so that the oldest leaves by one step. */
struct slot_queue {
  struct slot *items[GPU_MAX_SLOTS];
  unsigned first, count;
};

/* The slots of one session, each on the queue of its state. */
struct slot_ring {
  struct slot slots[GPU_MAX_SLOTS];
  unsigned count;
  struct slot_queue queues[SLOT_STATES];
};

/* All slots FREE, in order of their index. Buffers are the caller's to set. */
void slot_ring_init(struct slot_ring *ring, unsigned count);

static inline unsigned slot_count(const struct slot_ring *ring, enum slot_state state) { return ring->queues[state].count; }

/* The n-th oldest slot in a state, or NULL. */
static inline struct slot *slot_at(const struct slot_ring *ring, enum slot_state state, unsigned n) {
  const struct slot_queue *queue = &ring->queues[state];
  return n < queue->count ? queue->items[(queue->first + n) % GPU_MAX_SLOTS] : NULL;
}

static inline struct slot *slot_oldest(const struct slot_ring *ring, enum slot_state state) {
  const struct slot_queue *queue = &ring->queues[state];
  return queue->count > 0 ? queue->items[queue->first] : NULL;
}

/* Whether the table has this transition. */
bool slot_may_move(enum slot_state from, enum slot_state to);
/* Puts the slot behind those that are in `to` already. A transition that is not in the table is a bug and asserts. */
void slot_move(struct slot_ring *ring, struct slot *slot, enum slot_state to);

/* Puts slots into other states at once, for what became of them while nobody noted it: `becomes` by index. Within a state they
 * keep their order, those that come back to it first; those that are to be EMITTING stand in `emitting`, in order (NULL: none
 * is). */
void slot_ring_arrange(struct slot_ring *ring, const enum slot_state becomes[GPU_MAX_SLOTS],
                       const unsigned emitting[GPU_MAX_SLOTS]);

/* What the native protocol tells of a frame with its result; the frame came to the session with this number. */
struct native_result frame_result(const struct frame *frame, unsigned seat, int64_t now);

/* Passes one frame through a codec. */
void frame_pass(struct frame *frame, struct codec *codec);
/* Passes states, frames and their order through a codec. Frames that are on the device, which is lost with the process, are
 * READY again, before the others. What is read must have as many slots. */
void slot_ring_pass(struct slot_ring *ring, struct codec *codec);

#endif
