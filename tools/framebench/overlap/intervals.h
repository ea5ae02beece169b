/* Intervals of time, of which some may overlap: how long at least one lasted, and what lies between them. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_INTERVALS_H
#define FRAMED_FRAMEBENCH_OVERLAP_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
  uint64_t begin, end; /* ns */
};

/* All zero is none. */
struct intervals {
  struct interval *items;
  size_t count, room;
};

/* Microseconds. */
struct intervals_summary {
  double busy;        /* in which at least one lasted */
  double sum;         /* of all their lengths */
  double gaps;        /* of the pauses between them that are no longer than asked for */
  size_t overlapping; /* how many begin before one that began earlier has ended */
};

bool intervals_add(struct intervals *intervals, uint64_t begin, uint64_t end); /* false: no memory */
void intervals_forget(struct intervals *intervals);                            /* has none after it, and may be used again */
/* Sorts them. */
struct intervals_summary intervals_summarise(struct intervals *intervals, uint64_t longest_gap_ns);

#endif
