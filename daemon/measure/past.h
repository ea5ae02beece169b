/*
 * The past ten minutes of a pipeline, one sample every six seconds, so that a new viewer sees recent history. Counters are as
 * in the meter; events between two samples are their difference.
 */
#ifndef FRAMED_MEASURE_PAST_H
#define FRAMED_MEASURE_PAST_H

#include "daemon/measure/meter.h"

enum { PAST_EVERY = 3, PAST_SAMPLES = 101 }; /* meter readings a sample; 100 intervals */

struct past_sample {
  int64_t at; /* CLOCK_MONOTONIC ns */
  uint64_t in;
  uint64_t fates[FATE_COUNT];
  double p99; /* us, of the total over the ten seconds before */
};

struct past {
  unsigned readings; /* since the last sample */
  unsigned count, next;
  struct past_sample samples[PAST_SAMPLES];
};

/* Keeps every PAST_EVERY-th reading, starting with the first. `before` is the meter's oldest. */
void past_add(struct past *past, const struct reading *now, const struct reading *before);
/* The n-th sample from the oldest; `n` is below `count`. */
const struct past_sample *past_at(const struct past *past, unsigned n);
/* Frames by fate within the last minute, or since the first sample. */
void past_minute(const struct past *past, const struct ledger *now, int64_t at, uint64_t fates[FATE_COUNT]);

#endif
