/*
 * A slot: one buffer set of a session, and the frame in it.
 *
 * FREE -> FILLING -> READY -> RUNNING -> DONE -> EMITTING -> FREE, and RUNNING -> FAILED, or -> FREE where a stage refused it.
 * All transitions stand in one table in slot.c and happen only in slot_move(), which moves the slot between the queues of its
 * ring as well: a slot is on exactly the queue that its state names. A frame lives in its slot and nowhere else; while the slot
 * is EMITTING nobody writes to the frame, so that the sink may read it on a lane of its own. Queues keep the order in which
 * frames came. The only exception is what a process before this one left: slot_ring_adopt() and slot_ring_order() put it in its
 * place, before the first turn. A slot's state is one word, and its frame is whole before the slot is in a state that says so:
 * so a ring makes sense wherever its process was killed.
 */
#ifndef FRAMED_FRAME_SLOT_H
#define FRAMED_FRAME_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/device/device.h"
#include "daemon/measure/ledger.h"
#include "daemon/wire/native_wire.h"
#include "daemon/wire/protocol.h"

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_RUNNING, SLOT_DONE, SLOT_EMITTING, SLOT_FAILED, SLOT_STATES };

extern const char *const slot_state_names[SLOT_STATES];

/* Which frame of its pipeline a frame is, for ever. */
struct frame_name {
  uint64_t epoch, number;
};

/* One frame on its way. Times are CLOCK_MONOTONIC ns, 0 before the frame got there. */
struct frame {
  uint64_t sequence;      /* counts the frames of its producer from 0 */
  unsigned producer;      /* counts the producers of its session from 1 */
  uint64_t epoch;         /* of its producer: see struct receive */
  bool open;              /* it came in, has no fate yet, and is not at the sink, which knows that of its results */
  enum fate fate;         /* once it has one, and its slot is free */
  bool restart;           /* the first of its producer: state of stages starts anew */
  struct frame_rate rate; /* of its producer, */
  struct y4m_look look;   /* as it says, and does not change within its stream */
  int64_t began; /* its capture, if its producer said when, or its first byte: its latency and deadline run from here */
  int64_t first_byte, complete, dispatched, seen;
  int64_t deadline;        /* its own; 0: the pipeline's */
  uint64_t tag;            /* the number that its producer gave it, or else the same as `sequence`, */
  uint32_t flags;          /* and what it wants in the flags of the result */
  uint64_t missing;        /* once its result is offered: how many frames before it have none, since the last that has */
  unsigned stream;         /* that of its slot, once dispatched, */
  unsigned stages;         /* and which stages it goes through: see struct flow */
  struct gpu_times device; /* once seen; `begin` is 0 if that was not timed */
  bool recorded;           /* it comes from a recording: whether it is late was settled when it came */
  bool again;              /* it was on a device that was lost, and runs once more, */
  bool suspect;            /* alone, since that device failed (retry.h) */
  unsigned failures;       /* how many times it was alone on a device that failed */
};

static inline struct frame_name frame_name(const struct frame *frame) {
  return (struct frame_name){.epoch = frame->epoch, .number = frame->sequence};
}

struct slot {
  enum slot_state state;
  unsigned index; /* of its stream in the program */
  unsigned char *input, *output;
  struct frame frame;
  bool awaits_fate; /* its frame is at the sink, which has not told its fate yet */
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

/* What the native protocol tells of a frame with its result; the frame came to the session with this number. */
struct native_result frame_result(const struct frame *frame, unsigned seat, int64_t now);

/* Whether what another process left is a frame. */
bool frame_is_sound(const struct frame *frame);
/* Takes states and frames from the ring of a process before this one. Frames that were on the device, which is lost with that
 * process, are READY again; one whose fate was just being told has none of its own to wait for. False: it makes no sense. */
bool slot_ring_adopt(struct slot_ring *ring, const struct slot_ring *left);
/* Whether its frame came before the other one's. */
bool slot_is_older(const struct slot *slot, const struct slot *other);
/* Puts each slot on the queue of its state, in the order of frames. */
void slot_ring_order(struct slot_ring *ring);

#endif
