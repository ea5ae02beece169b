#include "daemon/trial.h"

#include <stdlib.h>

bool trial_join(struct trial *trial, struct lane *lane, struct runner *runner, unsigned suspects) {
  struct trial_member *members = realloc(trial->members, (trial->count + 1) * sizeof *members);
  if (!members) {
    return false;
  }
  members[trial->count++] = (struct trial_member){.lane = lane, .runner = runner};
  trial->members = members;
  atomic_fetch_add(&trial->suspects, suspects);
  return true;
}

void trial_clear(struct trial *trial) {
  free(trial->members);
  *trial = (struct trial){0};
}

bool trial_is_over(struct trial *trial) { return atomic_load(&trial->suspects) == 0; }

bool trial_admits(struct trial *trial, bool suspect) {
  return trial_is_over(trial) || (suspect && !atomic_exchange(&trial->busy, true));
}

void trial_pass(struct trial *trial, bool ran) {
  if (ran) {
    atomic_store(&trial->busy, false);
  }
  atomic_fetch_sub(&trial->suspects, 1);
  for (unsigned i = 0; i < trial->count; i++) {
    lane_wake(trial->members[i].lane, trial->members[i].runner);
  }
}
