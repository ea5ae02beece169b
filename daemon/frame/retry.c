#include "daemon/frame/retry.h"

#include <stdlib.h>

static bool knows(const struct retry *retry, const struct lane *lane) {
  unsigned at = 0;
  while (at < retry->count && retry->lanes[at] != lane) {
    at++;
  }
  return at < retry->count;
}

void retry_suspect(struct frame *frame, bool failed, bool alone) {
  frame->again = true;
  frame->suspect |= failed;
  frame->failures += failed && alone;
}

void retry_restart(struct retry *retry) {
  atomic_store(&retry->suspects, 0);
  atomic_store(&retry->busy, false);
}

bool retry_join(struct retry *retry, struct lane *lane, const struct slot_ring *ring) {
  for (unsigned i = 0; i < slot_count(ring, SLOT_READY); i++) {
    atomic_fetch_add(&retry->suspects, slot_at(ring, SLOT_READY, i)->frame.suspect);
  }
  if (knows(retry, lane)) {
    return true;
  }
  struct lane **lanes = realloc(retry->lanes, (retry->count + 1) * sizeof(struct lane *));
  if (!lanes) {
    return false;
  }
  lanes[retry->count++] = lane;
  retry->lanes = lanes;
  return true;
}

void retry_clear(struct retry *retry) {
  free(retry->lanes);
  *retry = (struct retry){0};
}

bool retry_is_over(struct retry *retry) { return atomic_load(&retry->suspects) == 0; }

bool retry_is_on(const struct retry *retry) { return atomic_load(&retry->busy) && atomic_load(&retry->suspects) > 0; }

bool retry_admits(struct retry *retry, bool suspect) {
  return retry_is_over(retry) || (suspect && !atomic_exchange(&retry->busy, true));
}

void retry_pass(struct retry *retry, bool ran) {
  if (ran) {
    atomic_store(&retry->busy, false);
  }
  atomic_fetch_sub(&retry->suspects, 1);
  for (unsigned i = 0; i < retry->count; i++) {
    lane_wake_all(retry->lanes[i]);
  }
}
