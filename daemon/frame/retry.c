#include "daemon/frame/retry.h"

#include <stdlib.h>

static bool knows(const struct retry *retry, const struct lane *lane) {
  unsigned at = 0;
  while (at < retry->count && retry->lanes[at] != lane) {
    at++;
  }
  return at < retry->count;
}

bool retry_join(struct retry *retry, struct lane *lane, unsigned suspects) {
  atomic_fetch_add(&retry->suspects, suspects);
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
