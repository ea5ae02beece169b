/* Time intervals that may overlap: the time in which at least one was active, and the gaps between them. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_INTERVALS_H
#define FRAMED_FRAMEBENCH_OVERLAP_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
  uint64_t begin, end; /* ns */
};

/* All zero is an empty list. */
struct intervals {
  struct interval *items;
  size_t count, room;
};

/* In microseconds. */
struct intervals_summary {
  double busy;        /* in which at least one was active */
  double sum;         /* of all lengths */
  double gaps;        /* of the pauses up to the requested length */
  size_t overlapping; /* intervals that begin before an earlier one has ended */
};

bool intervals_add(struct intervals *intervals, uint64_t begin, uint64_t end); /* false: no memory */
void intervals_forget(struct intervals *intervals);                            /* empties the list for reuse */
/* Sorts the intervals. */
struct intervals_summary intervals_summarise(struct intervals *intervals, uint64_t longest_gap_ns);

#endif
