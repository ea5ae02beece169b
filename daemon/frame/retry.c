#include "daemon/frame/retry.h"

#include <stdlib.h>

static bool knows(const struct trial *trial, const struct lane *lane) {
  unsigned at = 0;
  while (at < trial->count && trial->lanes[at] != lane) {
    at++;
  }
  return at < trial->count;
}

bool trial_join(struct trial *trial, struct lane *lane, unsigned suspects) {
  atomic_fetch_add(&trial->suspects, suspects);
  if (knows(trial, lane)) {
    return true;
  }
  struct lane **lanes = realloc(trial->lanes, (trial->count + 1) * sizeof(struct lane *));
  if (!lanes) {
    return false;
  }
  lanes[trial->count++] = lane;
  trial->lanes = lanes;
  return true;
}

void trial_clear(struct trial *trial) {
  free(trial->lanes);
  *trial = (struct trial){0};
}

bool trial_is_over(struct trial *trial) { return atomic_load(&trial->suspects) == 0; }

bool trial_is_on(const struct trial *trial) { return atomic_load(&trial->busy) && atomic_load(&trial->suspects) > 0; }

bool trial_admits(struct trial *trial, bool suspect) {
  return trial_is_over(trial) || (suspect && !atomic_exchange(&trial->busy, true));
}

void trial_pass(struct trial *trial, bool ran) {
  if (ran) {
    atomic_store(&trial->busy, false);
  }
  atomic_fetch_sub(&trial->suspects, 1);
  for (unsigned i = 0; i < trial->count; i++) {
    lane_wake_all(trial->lanes[i]);
  }
}
