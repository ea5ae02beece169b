/*
 * A slot: one buffer set of a session with its frame. slot.c explains the states, the queues and what always holds.
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

/* Identifies a frame within its pipeline. Never used twice, also after a restart. */
struct frame_name {
  uint64_t epoch, number;
};

/* One frame. Times are CLOCK_MONOTONIC ns, 0 before the frame got there. */
struct frame {
  uint64_t sequence;      /* counts the frames of its producer from 0 */
  unsigned producer;      /* counts the producers of its session from 1 */
  uint64_t epoch;         /* of its producer; see struct receive */
  bool open;              /* counted as `in`, without a fate, and not yet offered to the sink */
  enum fate fate;         /* valid once the frame has a fate and its slot is free */
  bool restart;           /* first frame of its producer: stages reset their state */
  struct frame_rate rate; /* frame rate of the producer */
  struct y4m_look look;   /* Y4M parameters of the producer; they do not change within its stream */
  /* Capture time if the producer sent one, else the time of the first byte. Latency and deadline are measured from here. */
  int64_t began;
  int64_t first_byte, complete, dispatched, seen;
  int64_t deadline; /* the frame's own; 0: the deadline of the pipeline applies */
  uint64_t tag;     /* number that the producer sent with the frame, else `sequence` */
  uint32_t flags;   /* flags that the producer asked to have copied into the result */
  /* Set when the result is offered: how many frames since the last result, or since the start, have no result. */
  uint64_t missing;
  unsigned stream;         /* index of its slot, set at dispatch */
  unsigned stages;         /* number of the stages it runs through (struct flow), set at dispatch */
  struct gpu_times device; /* valid once `seen` is set; `begin` is 0 if the frame was not timed */
  bool recorded;           /* comes from a recording, which fixed whether it is late */
  bool again;              /* was on a device that was lost, and runs once more */
  bool suspect;            /* may have made its device fail, so it runs alone (retry.h) */
  unsigned failures;       /* how often its device failed while it was alone there */
};

static inline struct frame_name frame_name(const struct frame *frame) {
  return (struct frame_name){.epoch = frame->epoch, .number = frame->sequence};
}

struct slot {
  enum slot_state state;
  unsigned index; /* also the index of its stream in the program */
  unsigned char *input, *output;
  struct frame frame;
  bool awaits_fate; /* offered to the sink, which has not reported the fate yet */
};

/* The slots in one state, oldest first. A circular buffer, so that removing the oldest is one step. */
struct slot_queue {
  struct slot *items[GPU_MAX_SLOTS];
  unsigned first, count;
};

struct slot_ring {
  struct slot slots[GPU_MAX_SLOTS];
  unsigned count;
  struct slot_queue queues[SLOT_STATES];
};

/* All slots become FREE, in order of their index. The caller sets the buffers. */
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

/* True if the table allows this transition. */
bool slot_may_move(enum slot_state from, enum slot_state to);
/* Appends the slot to the queue of `to`. Asserts that the transition is in the table. */
void slot_move(struct slot_ring *ring, struct slot *slot, enum slot_state to);

/* The record that a native reader gets with the result of this frame. `seat` is the number of the session on its pipeline. */
struct native_result frame_result(const struct frame *frame, unsigned seat, int64_t now);

/* Checks a frame that another process left. */
bool frame_is_sound(const struct frame *frame);
/* Takes states and frames from the ring of the previous process. RUNNING frames become READY, since their device is lost. A
 * slot whose frame got its fate at that moment becomes FREE. Returns false if the ring is not valid. */
bool slot_ring_adopt(struct slot_ring *ring, const struct slot_ring *left);
/* True if its frame arrived before that of `other`. */
bool slot_is_older(const struct slot *slot, const struct slot *other);
/* Rebuilds the queues from the states, in the order of frames. */
void slot_ring_order(struct slot_ring *ring);

#endif
