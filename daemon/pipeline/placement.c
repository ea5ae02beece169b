#include "daemon/pipeline/placement.h"

enum { MOST_LANES = 4 }; /* more lanes would wait for the same memory bus */

/* Smaller results cost less to write than to hand to another lane. */
#define WORTH_A_LANE ((size_t)256 * 1024)

unsigned placement_choose(const size_t *loads, unsigned count) {
  unsigned best = 0;
  for (unsigned i = 1; i < count; i++) {
    if (loads[i] < loads[best]) {
      best = i;
    }
  }
  return best;
}

unsigned placement_choose_other(const size_t *loads, unsigned count, unsigned than) {
  unsigned best = than == 0 ? 1 : 0;
  for (unsigned i = best + 1; i < count; i++) {
    if (i != than && loads[i] < loads[best]) {
      best = i;
    }
  }
  return best;
}

bool placement_parts(size_t result_bytes, unsigned lanes) { return lanes > 1 && result_bytes >= WORTH_A_LANE; }

unsigned placement_lanes(long processors) {
  if (processors <= 2) {
    return processors == 2 ? 2 : 1;
  }
  return processors - 1 < MOST_LANES ? (unsigned)(processors - 1) : MOST_LANES;
}

unsigned placement_device(const struct placement_device *devices, unsigned count, size_t needed) {
  unsigned best = count;
  for (unsigned i = 0; i < count; i++) {
    const struct placement_device *one = &devices[i], *other = best < count ? &devices[best] : NULL;
    bool is_better = !other || one->sessions < other->sessions || (one->sessions == other->sessions && one->load < other->load);
    if (one->is_open && one->room >= needed && is_better) {
      best = i;
    }
  }
  return best;
}
