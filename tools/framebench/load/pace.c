#include "tools/framebench/load/pace.h"

#include <math.h>

#define LATEST_NS 4e18 /* leaves room for additions of clock times */

int64_t load_pace_due(const struct load_pace *pace, uint64_t number) {
  return pace->start + (int64_t)fmin((double)number * 1e9 / pace->rate, LATEST_NS);
}

bool load_pace_measures(const struct load_pace *pace, int64_t at) { return at >= pace->from && at < pace->to; }

unsigned load_pace_count(const struct load_pace *pace, uint64_t first, unsigned most, int64_t now) {
  unsigned count = 0;
  while (count < most) {
    int64_t at = load_pace_due(pace, first + count);
    if (at > now || at >= pace->to) {
      break;
    }
    count++;
  }
  return count;
}

/* The first frame that is due at or after `at`. A binary search, since there can be too many earlier frames to count. */
static uint64_t first_due(const struct load_pace *pace, int64_t at) {
  uint64_t low = 0, high = 1;
  while (load_pace_due(pace, high) < at) {
    high *= 2;
  }
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (load_pace_due(pace, middle) < at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

uint64_t load_pace_offered(const struct load_pace *pace) {
  uint64_t first = first_due(pace, pace->from), end = first_due(pace, pace->to);
  return end > first ? end - first : 0;
}
