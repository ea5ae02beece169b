#include "daemon/frame/acks.h"

#include <string.h>

static void forget(struct settled *settled, unsigned at) {
  settled->count--;
  memmove(settled->open + at, settled->open + at + 1, (settled->count - at) * sizeof *settled->open);
}

void settled_open(struct settled *settled, const struct frame *frame) {
  if (frame->producer != settled->producer) {
    *settled = (struct settled){.producer = frame->producer};
  }
  if (settled->count == SETTLED_OPEN) {
    forget(settled, 0); /* slow readers have it, whom `drop` promises nothing */
  }
  settled->open[settled->count++] = frame->sequence;
  settled->next = frame->sequence + 1;
}

void settled_close(struct settled *settled, const struct frame *frame, enum fate fate) {
  if (frame->producer != settled->producer || fate == FATE_CLIENT_GONE || fate == FATE_SHUTDOWN) {
    return;
  }
  for (unsigned i = 0; i < settled->count; i++) {
    if (settled->open[i] == frame->sequence) {
      forget(settled, i);
      return;
    }
  }
}

uint64_t settled_count(const struct settled *settled, unsigned producer) {
  if (settled->producer != producer) {
    return 0;
  }
  return settled->count > 0 ? settled->open[0] : settled->next;
}

void settled_pass(struct settled *settled, struct tape *tape) {
  TAPE_PASS(tape, settled->producer);
  tape_pass_below(tape, &settled->count, SETTLED_OPEN + 1);
  tape_pass(tape, settled->open, settled->count * sizeof *settled->open);
  TAPE_PASS(tape, settled->next);
}
