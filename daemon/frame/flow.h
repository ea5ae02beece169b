/*
 * The room frame/: one frame on one lane, with its slots, account, receive, dispatch and completion.
 *
 * A flow is the state that the steps of a session share:
 *
 *   source -> receive -> dispatch -> (stream and stages) -> completion -> emit -> sink
 *
 * Each step moves slots from one state to the next and calls no other step. A flow belongs to the lane of its session.
 *
 * Invariant between turns: `in` equals the frames with a fate, plus the open frames in slots, plus the frames that the sink has
 * not settled yet. A sink on another lane exchanges slots with the flow through a relay.
 */
#ifndef FRAMED_FRAME_FLOW_H
#define FRAMED_FRAME_FLOW_H

#include "daemon/frame/account.h"
#include "daemon/frame/picture.h"
#include "daemon/frame/retry.h"
#include "daemon/frame/slot.h"
#include "daemon/measure/clock.h"

struct relay;

/* Called for each complete frame, and for each result before it goes to the sink. */
struct tap {
  void (*on_frame)(struct tap *tap, const struct slot *slot, int64_t now);
  void (*on_result)(struct tap *tap, const struct slot *slot, int64_t now);
};

/* A device as the flows see it. */
struct flow_device {
  unsigned number;
  _Atomic int64_t *completion;    /* CLOCK_MONOTONIC ns of the last completion of any session */
  const _Atomic int64_t *slowest; /* ns that a frame of the slowest session took during its warm-up; NULL: unknown */
  struct retry *retry;            /* shared by all devices */
  struct device *device;
  unsigned *producers; /* count of producers connected to sessions there; owned by the control loop */
};

/* The number of the stages wraps around at this value. A result may wait while the stages are replaced this many times. */
enum { FLOW_STAGES = 16 };

struct flow {
  struct slot_ring ring;
  struct account *account;
  struct device_program *program;
  const struct flow_device *devices; /* slot i belongs to device i modulo device_count */
  unsigned device_count;
  unsigned stages;                  /* number of the stages that the program runs */
  bool held_back;                   /* READY frames wait until the program is replaced */
  size_t input_bytes, output_bytes; /* of one frame */
  unsigned seat;                    /* number of the session on its pipeline */
  _Atomic unsigned memory;          /* generation of the slots' memory; changes when the memory is replaced */
  unsigned depth;                   /* maximum number of slots past READY */
  unsigned unsettled;               /* frames whose fate the sink has not reported yet */
  enum config_overload overload;
  int64_t deadline_ns;  /* 0: no deadline */
  bool spin;            /* completion: spin or persistent */
  bool awaits_answers;  /* with completion: spin, a turn waits a moment for a client's next frame before it polls the device */
  bool restart_pending; /* the first frame of a producer was dropped, so the next one must reset the stages */
  bool device_awaited;  /* the device lost its worker: READY frames wait for the next one */
  bool refused;         /* a stage rejected a frame, which is not reported yet */
  struct frame_name refused_frame; /* the rejected frame */
  char refusal[STAGE_TEXT];        /* the reason */
  unsigned offered_producer;       /* producer of the last offered result; 0: none was offered */
  uint64_t offered_sequence;       /* frame of the last offered result */
  int64_t active;                  /* when a frame last moved; spin_for and the reported wait are measured from here */
  void (*wake)(void *session);     /* [lane] requests a turn because the sink returned a slot */
  void *session;
  struct relay *relay; /* NULL: the sink is on this lane */
  struct retry *retry; /* NULL: no retry is under way */
  struct tap *tap;     /* NULL: none */
  /* Requests for a copy of the next result, set by the control loop; NULL: none. */
  struct picture *_Atomic pictures[PICTURE_SIDES];
};

static inline const struct flow_device *flow_device(const struct flow *flow, const struct slot *slot) {
  return &flow->devices[slot->index % flow->device_count];
}

bool flow_is_on(const struct flow *flow, const struct slot *slot, unsigned number); /* NO_DEVICE matches any */

/* Maximum number of slots past READY. Frames wait before the device, where they can still be dropped. */
unsigned flow_depth(enum config_overload overload, unsigned slots, bool has_deadline);

/* Slots past READY now. */
static inline unsigned flow_taken(const struct flow *flow) {
  const struct slot_queue *queues = flow->ring.queues;
  return queues[SLOT_RUNNING].count + queues[SLOT_DONE].count + queues[SLOT_EMITTING].count + queues[SLOT_FAILED].count;
}

/* The FILLING slot holds a complete frame: moves it to READY. */
void flow_ready(struct flow *flow, struct slot *slot, int64_t now);

/* Sets the fate of the frame and frees its slot. */
void flow_drop(struct flow *flow, struct slot *slot, enum fate fate, int64_t now);

/* Drops frames that made the device fail each time they ran alone. Returns their number; `last` gets the name of the last
 * one. */
unsigned flow_quarantine(struct flow *flow, struct frame_name *last);

/* Moves the oldest result to EMITTING. NULL: there is no result. */
struct slot *flow_offer(struct flow *flow);
/* [control loop] Requests a copy of the next result. Replaces a pending request of that side, which is marked PICTURE_GONE. */
void flow_request_picture(struct flow *flow, enum picture_side side, struct picture *picture);

/* The sink reports the fate of a frame, which is in its slot or in a struct pending. */
void flow_settle(struct flow *flow, const struct frame *frame, enum fate fate, int64_t now);
/* The sink no longer needs the slot: moves it to FREE. `fate` is the fate of its frame as the sink knows it. */
void flow_release(struct flow *flow, struct slot *slot, enum fate fate);

/* Frames without a fate, counted in the slots and at the sink. */
unsigned flow_in_flight(const struct flow *flow);

/* After a takeover: undoes the offer of this frame, which the sink did not get, so that it is offered again. */
void flow_offer_again(struct flow *flow, struct slot *slot);

#endif
