#include "tools/framebench/overlap/intervals.h"

#include <stdlib.h>

bool intervals_add(struct intervals *intervals, uint64_t begin, uint64_t end) {
  if (intervals->count == intervals->room) {
    size_t room = intervals->room ? 2 * intervals->room : 1024;
    struct interval *items = realloc(intervals->items, room * sizeof *items);
    if (!items) {
      return false;
    }
    intervals->items = items;
    intervals->room = room;
  }
  intervals->items[intervals->count++] = (struct interval){begin, end};
  return true;
}

void intervals_forget(struct intervals *intervals) {
  free(intervals->items);
  *intervals = (struct intervals){0};
}

static int compare(const void *a, const void *b) {
  uint64_t x = ((const struct interval *)a)->begin, y = ((const struct interval *)b)->begin;
  return (x > y) - (x < y);
}

struct intervals_summary intervals_summarise(struct intervals *intervals, uint64_t longest_gap_ns) {
  uint64_t last = 0, busy = 0, sum = 0, gaps = 0;
  size_t overlapping = 0;
  if (intervals->count > 0) {
    qsort(intervals->items, intervals->count, sizeof *intervals->items, compare);
    last = intervals->items[0].begin;
  }
  for (size_t i = 0; i < intervals->count; i++) {
    const struct interval *item = &intervals->items[i];
    uint64_t begin = item->begin > last ? item->begin : last;
    overlapping += item->begin < last;
    gaps += begin - last <= longest_gap_ns ? begin - last : 0;
    sum += item->end - item->begin;
    busy += item->end > begin ? item->end - begin : 0;
    last = item->end > last ? item->end : last;
  }
  return (struct intervals_summary){(double)busy / 1e3, (double)sum / 1e3, (double)gaps / 1e3, overlapping};
}
