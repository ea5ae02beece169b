#include "daemon/placement.h"

enum { MOST_LANES = 4 }; /* more loops than that wait for the same memory bus */

unsigned placement_choose(const size_t *loads, unsigned count) {
  unsigned best = 0;
  for (unsigned i = 1; i < count; i++) {
    if (loads[i] < loads[best]) {
      best = i;
    }
  }
  return best;
}

unsigned placement_lanes(long processors) {
  if (processors <= 2) {
    return 1;
  }
  return processors - 1 < MOST_LANES ? (unsigned)(processors - 1) : MOST_LANES;
}
