#include "tools/framebench/load_pace.h"

int64_t load_pace_due(const struct load_pace *pace, uint64_t number) {
  return pace->start + (int64_t)((double)number * 1e9 / pace->rate);
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

uint64_t load_pace_offered(const struct load_pace *pace) {
  uint64_t count = 0;
  int64_t at;
  for (uint64_t number = 0; (at = load_pace_due(pace, number)) < pace->to; number++) {
    count += load_pace_measures(pace, at);
  }
  return count;
}
