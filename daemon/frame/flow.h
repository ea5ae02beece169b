/*
 * The room frame/: one frame on one lane, with its slots, books, receive, dispatch and completion.
 *
 * A flow is what the steps of a frame's way share, and the only place where they meet.
 *
 *   source -> receive -> dispatch -> (stream and stages) -> completion -> emit -> sink
 *
 * Each step moves slots from one state to the next and knows no other step. A flow belongs to its session's lane.
 * What always holds between turns: the frames that came in are exactly those with a fate, plus the open ones in slots,
 * plus the open ones that the sink has taken over. A sink on another lane gets and gives them through a relay.
 */
#ifndef FRAMED_FRAME_FLOW_H
#define FRAMED_FRAME_FLOW_H

#include "daemon/frame/account.h"
#include "daemon/frame/picture.h"
#include "daemon/frame/retry.h"
#include "daemon/frame/slot.h"
#include "daemon/measure/clock.h"

struct relay;

/* Whoever wants to know of each frame that has come whole, and of each result before it goes to the sink. */
struct tap {
  void (*on_frame)(struct tap *tap, const struct slot *slot, int64_t now);
  void (*on_result)(struct tap *tap, const struct slot *slot, int64_t now);
};

/* A device, as the frames there know it. */
struct flow_device {
  unsigned number;
  _Atomic int64_t *completion;    /* CLOCK_MONOTONIC ns of its last completion, of whatever session */
  const _Atomic int64_t *slowest; /* ns that the slowest session's frame took there in its warm-up; NULL: not known */
  struct retry *retry;            /* all devices' */
  struct device *device;
  unsigned *producers; /* the control loop's: who is connected to sessions there */
};

/* Stages that take the place of others have the next number, and a result may wait in spite of as many changes. */
enum { FLOW_STAGES = 16 };

struct flow {
  struct slot_ring ring;
  struct account *account;
  struct device_program *program;
  const struct flow_device *devices; /* slot i belongs to device i modulo device_count */
  unsigned device_count;
  unsigned stages;                  /* the number of those that the program runs */
  bool held_back;                    /* READY frames wait until the program is another one */
  struct lane *lane;                /* that it belongs to; NULL in tests */
  size_t input_bytes, output_bytes; /* of one frame */
  unsigned seat;                    /* the session's number on its pipeline */
  _Atomic unsigned memory;          /* of the slots: another number each time that it is made anew */
  unsigned depth;                   /* slots that may be past READY */
  unsigned unsettled;                 /* frames at the sink whose fate it has not told yet */
  enum config_overload overload;
  int64_t deadline_ns; /* 0: none */
  bool spin;           /* completion: spin or persistent */
  bool awaits_answers;  /* completion: spin: each look at the device takes a call to it */
  bool restart_owed;   /* the first frame of a producer was dropped before the device had it */
  bool device_dead;    /* frames there are lost until the device gets another worker, */
  bool device_awaited; /* which READY frames wait for */
  unsigned lost;       /* the number of that device */
  struct gpu_error device_error;
  bool refused;                    /* a stage could not compute a frame since that was told last, */
  struct frame_name refused_frame; /* this one, */
  char refusal[STAGE_TEXT];        /* for this reason */
  unsigned offered_producer;       /* whose the last result was, 0: there was none, */
  uint64_t offered_sequence;       /* and of which frame */
  int64_t active;                  /* when a frame last moved, for spin_for and for what the session waits for */
  void (*wake)(void *session);     /* [lane] asks for a turn: a slot came back from the sink */
  void *session;
  struct relay *relay;                             /* NULL: the sink is on this lane */
  struct retry *retry;                             /* NULL: none is under way */
  struct tap *tap;                                 /* NULL: nobody */
  struct picture *_Atomic pictures[PICTURE_SIDES]; /* that wait for the next result, hung up by the control loop; or NULL */
};

/* Around each call to the device, which may take for ever: see lane_enter_device(). */
static inline void flow_enter_device(const struct flow *flow) {
  if (flow->lane) {
    lane_enter_device(flow->lane);
  }
}

static inline void flow_leave_device(const struct flow *flow) {
  if (flow->lane) {
    lane_leave_device(flow->lane);
  }
}

static inline const struct flow_device *flow_device(const struct flow *flow, const struct slot *slot) {
  return &flow->devices[slot->index % flow->device_count];
}

bool flow_is_on(const struct flow *flow, const struct slot *slot, unsigned number); /* NO_DEVICE: on any */

/* The device of the slot is dead. */
void flow_lose_device(struct flow *flow, const struct slot *slot);

/* How many slots may be past READY: frames must wait where they can still be dropped. */
unsigned flow_depth(enum config_overload overload, unsigned slots, bool has_deadline);

/* Slots past READY now. */
static inline unsigned flow_taken(const struct flow *flow) {
  const struct slot_queue *queues = flow->ring.queues;
  return queues[SLOT_RUNNING].count + queues[SLOT_DONE].count + queues[SLOT_EMITTING].count + queues[SLOT_FAILED].count;
}

/* The frame in the slot, which was FILLING, has come whole: READY. */
void flow_ready(struct flow *flow, struct slot *slot, int64_t now);

/* Gives the frame in the slot its fate and frees the slot. */
void flow_drop(struct flow *flow, struct slot *slot, enum fate fate, int64_t now);

/* Drops frames that were alone on the device each time it failed, which are not tried once more. Gives how many; `last` gets
 * the name of the last, if any. */
unsigned flow_quarantine(struct flow *flow, struct frame_name *last);

/* The oldest result is on its way out: moves it to EMITTING. NULL: there is none. */
struct slot *flow_offer(struct flow *flow);
/* [control loop] Hangs up a picture for the next result, in place of one of that side that waits, which is gone. */
void flow_request_picture(struct flow *flow, enum picture_side side, struct picture *picture);

/* The frame that the sink has, in its slot or without one, has its fate. */
void flow_settle(struct flow *flow, const struct frame *frame, enum fate fate, int64_t now);
/* The sink needs the slot no longer: it is free. Its frame's fate as far as the sink knows it by now. */
void flow_release(struct flow *flow, struct slot *slot, enum fate fate);

/* Open frames, counted where they are. */
unsigned flow_in_flight(const struct flow *flow);

/* What another process had offered last is taken back to before this frame, which is offered once more. */
void flow_offer_again(struct flow *flow, struct slot *slot);

#endif
