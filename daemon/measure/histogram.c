#include "daemon/measure/histogram.h"

#include <math.h>

enum { FIRST_SHIFT = 7, STEP_BITS = 5 }; /* the first octave is linear: 128 ns in 32 buckets of 4 ns */

static int64_t lower_edge(unsigned bucket) {
  unsigned octave = bucket / HISTOGRAM_STEPS;
  int64_t step = bucket % HISTOGRAM_STEPS;
  if (octave == 0) {
    return step << (FIRST_SHIFT - STEP_BITS);
  }
  return (HISTOGRAM_STEPS + step) << (octave - 1 + FIRST_SHIFT - STEP_BITS);
}

int64_t histogram_upper_edge(unsigned bucket) { return lower_edge(bucket + 1); }

int64_t histogram_value(unsigned bucket) { return (lower_edge(bucket) + histogram_upper_edge(bucket)) / 2; }

/* With a single writer a relaxed load and store is enough, and cheaper than an atomic addition. */
#define BUMP(counter, by)                                                                                                      \
  atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (by), memory_order_relaxed)

/* Buckets of the second octave are as wide as those of the first, so both use the same formula. */
void histogram_record(struct histogram *histogram, int64_t ns) {
  uint64_t value = ns > 0 ? (uint64_t)ns : 0;
  unsigned top = 63U - (unsigned)__builtin_clzll(value | (UINT64_C(1) << FIRST_SHIFT));
  uint64_t bucket = (top - FIRST_SHIFT) * HISTOGRAM_STEPS + (value >> (top - STEP_BITS));
  _Atomic uint64_t *count = &histogram->counts[bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1];
  BUMP(*count, 1U);
  BUMP(histogram->sum_ns, value);
}

void histogram_read(const struct histogram *histogram, struct histogram_view *view) {
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    view->counts[i] += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
  }
  view->sum_ns += atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
}

/* The value below which `share` of the counts are, in microseconds. */
static double quantile(const uint64_t *counts, uint64_t total, double share) {
  uint64_t rank = (uint64_t)ceil(share * (double)total);
  uint64_t seen = 0;
  unsigned last = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    if (counts[i] == 0) {
      continue;
    }
    seen += counts[i];
    last = i;
    if (seen >= rank) {
      break;
    }
  }
  return (double)histogram_value(last) / 1e3;
}

double histogram_quantile(const struct histogram_view *view, double share) {
  uint64_t total = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    total += view->counts[i];
  }
  return total > 0 ? quantile(view->counts, total, share) : 0;
}

struct histogram_summary histogram_summarize(const struct histogram_view *now, const struct histogram_view *before) {
  uint64_t counts[HISTOGRAM_BUCKETS];
  uint64_t total = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    counts[i] = now->counts[i] - (before ? before->counts[i] : 0);
    total += counts[i];
  }
  struct histogram_summary summary = {.count = total};
  if (total == 0) {
    return summary;
  }
  uint64_t sum = now->sum_ns - (before ? before->sum_ns : 0);
  summary.mean = (double)sum / (double)total / 1e3;
  summary.p50 = quantile(counts, total, 0.50);
  summary.p90 = quantile(counts, total, 0.90);
  summary.p99 = quantile(counts, total, 0.99);
  summary.p999 = quantile(counts, total, 0.999);
  summary.max = quantile(counts, total, 1.0);
  return summary;
}
