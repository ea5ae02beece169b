#include "daemon/frame/flow.h"

#include "daemon/frame/fault.h"

unsigned flow_depth(enum config_overload overload, unsigned slots, bool has_deadline) {
  unsigned kept_back = 0;
  if (overload == CONFIG_OVERLOAD_DROP_OLDEST) {
    kept_back = 2; /* one slot waits READY, one is being filled */
  } else if (has_deadline) {
    kept_back = 1;
  }
  return slots > kept_back ? slots - kept_back : 1;
}

void flow_ready(struct flow *flow, struct slot *slot, int64_t now) {
  histogram_record(&flow->account->steps[STEP_RECEIVE], now - slot->frame.first_byte);
  slot_move(&flow->ring, slot, SLOT_READY);
  flow->active = now;
  if (flow->tap) {
    flow->tap->on_frame(flow->tap, slot, now);
  }
}

void flow_drop(struct flow *flow, struct slot *slot, enum fate fate, int64_t now) {
  account_settle(flow->account, &slot->frame, fate, now);
  if (slot->frame.suspect && flow->retry) {
    slot->frame.suspect = false;
    retry_pass(flow->retry, false);
  }
  slot_move(&flow->ring, slot, SLOT_FREE);
}

unsigned flow_quarantine(struct flow *flow, struct frame_name *last) {
  unsigned at = 0, quarantined = 0;
  for (struct slot *slot = slot_at(&flow->ring, SLOT_READY, at); slot; slot = slot_at(&flow->ring, SLOT_READY, at)) {
    if (slot->frame.failures < RETRY_LIMIT) {
      at++;
      continue;
    }
    *last = frame_name(&slot->frame);
    slot->frame.suspect = false;
    flow_drop(flow, slot, FATE_GPU_FAULT, clock_now());
    quarantined++;
  }
  return quarantined;
}

/* Takes the pending request, unless the control loop has just withdrawn it. */
static void flow_show(struct flow *flow, int side, const struct slot *slot) {
  struct picture *picture = atomic_exchange(&flow->pictures[side], NULL);
  if (picture) {
    picture_take(picture, slot->input, slot->output, slot->frame.sequence);
  }
}

/* `missing` is computed from sequences, which count every frame of a producer from 0. */
struct slot *flow_offer(struct flow *flow) {
  struct slot *slot = slot_oldest(&flow->ring, SLOT_DONE);
  if (slot) {
    struct frame *frame = &slot->frame;
    frame->missing = frame->sequence - (flow->offered_producer == frame->producer ? flow->offered_sequence + 1 : 0);
    slot_move(&flow->ring, slot, SLOT_EMITTING); /* before the rest, because flow_offer_again() can undo what follows */
    flow->offered_producer = frame->producer;
    flow->offered_sequence = frame->sequence;
    for (int side = 0; side < PICTURE_SIDES; side++) {
      if (atomic_load_explicit(&flow->pictures[side], memory_order_relaxed)) {
        flow_show(flow, side, slot);
      }
    }
    if (flow->tap) {
      flow->tap->on_result(flow->tap, slot, clock_now());
    }
  }
  return slot;
}

void flow_offer_again(struct flow *flow, struct slot *slot) {
  const struct frame *frame = &slot->frame;
  slot->state = SLOT_DONE;
  slot->awaits_fate = false;
  slot->frame.open = true;
  if (flow->offered_producer == frame->producer && flow->offered_sequence >= frame->sequence) {
    flow->offered_producer = frame->missing == frame->sequence ? 0 : frame->producer;
    flow->offered_sequence = frame->sequence - frame->missing - 1;
  }
}

void flow_request_picture(struct flow *flow, enum picture_side side, struct picture *picture) {
  if (picture) {
    atomic_fetch_add(&picture->holders, 1);
  }
  struct picture *before = atomic_exchange(&flow->pictures[side], picture);
  if (before) {
    atomic_store(&before->state, PICTURE_GONE);
    picture_drop(before);
  }
}

void flow_settle(struct flow *flow, const struct frame *frame, enum fate fate, int64_t now) {
  if (fate == FATE_EMITTED) {
    flow->account->now.ledger.out_bytes += flow->output_bytes;
  }
  account_close(flow->account, frame, fate, now);
  flow->unsettled--;
  flow->active = now;
}

void flow_release(struct flow *flow, struct slot *slot, enum fate fate) {
  slot->frame.fate = fate;
  slot_move(&flow->ring, slot, SLOT_FREE);
}

unsigned flow_in_flight(const struct flow *flow) {
  unsigned open = flow->unsettled;
  for (unsigned i = 0; i < flow->ring.count; i++) {
    open += flow->ring.slots[i].frame.open ? 1 : 0;
  }
  return open;
}

bool flow_is_on(const struct flow *flow, const struct slot *slot, unsigned number) {
  return number == NO_DEVICE || flow_device(flow, slot)->number == number;
}
