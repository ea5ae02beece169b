#include "daemon/frame/acks.h"

#include <string.h>

static void forget(struct acks *acks, unsigned at) {
  acks->count--;
  memmove(acks->open + at, acks->open + at + 1, (acks->count - at) * sizeof *acks->open);
}

void acks_open(struct acks *acks, const struct frame *frame) {
  if (frame->producer != acks->producer) {
    *acks = (struct acks){.producer = frame->producer};
  }
  if (acks->count == ACKS_OPEN) {
    forget(acks, 0); /* slow readers have it, whom `drop` promises nothing */
  }
  acks->open[acks->count++] = frame->sequence;
  acks->next = frame->sequence + 1;
}

void acks_close(struct acks *acks, const struct frame *frame, enum fate fate) {
  if (frame->producer != acks->producer || fate == FATE_CLIENT_GONE || fate == FATE_SHUTDOWN) {
    return;
  }
  for (unsigned i = 0; i < acks->count; i++) {
    if (acks->open[i] == frame->sequence) {
      forget(acks, i);
      return;
    }
  }
}

uint64_t acks_count(const struct acks *acks, unsigned producer) {
  if (acks->producer != producer) {
    return 0;
  }
  return acks->count > 0 ? acks->open[0] : acks->next;
}

void acks_pass(struct acks *acks, struct codec *codec) {
  CODEC_PASS(codec, acks->producer);
  codec_pass_below(codec, &acks->count, ACKS_OPEN + 1);
  codec_pass(codec, acks->open, acks->count * sizeof *acks->open);
  CODEC_PASS(codec, acks->next);
}
