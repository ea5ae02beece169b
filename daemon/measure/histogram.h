/*
 * Log-linear histograms of durations with 32 buckets an octave, so that a reported value is within 1.6 % of the recorded one.
 * One thread records, any thread reads. Counts only grow, and a reader uses differences.
 */
#ifndef FRAMED_MEASURE_HISTOGRAM_H
#define FRAMED_MEASURE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum {
  HISTOGRAM_OCTAVES = 32, /* the first has 0 to 127 ns, the last all above 128 ns * 2^31 = 275 s */
  HISTOGRAM_STEPS = 32,   /* buckets an octave */
  HISTOGRAM_BUCKETS = HISTOGRAM_OCTAVES * HISTOGRAM_STEPS
};

struct histogram {
  _Atomic uint64_t counts[HISTOGRAM_BUCKETS];
  _Atomic uint64_t sum_ns;
};

/* The sum of one or more histograms at one moment; plain numbers. */
struct histogram_view {
  uint64_t counts[HISTOGRAM_BUCKETS];
  uint64_t sum_ns;
};

struct histogram_summary { /* microseconds; all 0 if nothing was recorded */
  uint64_t count;
  double mean, p50, p90, p99, p999, max;
};

void histogram_record(struct histogram *histogram, int64_t ns);                      /* negative counts as 0; wait-free */
void histogram_read(const struct histogram *histogram, struct histogram_view *view); /* adds to `view` */
struct histogram_summary histogram_summarize(const struct histogram_view *now, const struct histogram_view *before);
/* The value that `share` (0 to 1) of the counts do not exceed, in microseconds; 0 if nothing was recorded. */
double histogram_quantile(const struct histogram_view *view, double share);
int64_t histogram_value(unsigned bucket);      /* the middle of a bucket, in ns */
int64_t histogram_upper_edge(unsigned bucket); /* exclusive, in ns */

#endif
