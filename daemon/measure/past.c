#include "daemon/measure/past.h"

#include <string.h>

void past_add(struct past *past, const struct reading *now, const struct reading *before) {
  if (past->count > 0 && ++past->readings < PAST_EVERY) {
    return;
  }
  struct past_sample *sample = &past->samples[past->next];
  *sample = (struct past_sample){
      .at = now->at, .in = now->ledger.in, .p99 = histogram_summarize(&now->steps[STEP_TOTAL], &before->steps[STEP_TOTAL]).p99};
  memcpy(sample->fates, now->ledger.fates, sizeof sample->fates);
  past->readings = 0;
  past->next = (past->next + 1) % PAST_SAMPLES;
  past->count += past->count < PAST_SAMPLES;
}

const struct past_sample *past_at(const struct past *past, unsigned n) {
  return &past->samples[(past->next + PAST_SAMPLES - past->count + n) % PAST_SAMPLES];
}

void past_minute(const struct past *past, const struct ledger *now, int64_t at, uint64_t fates[FATE_COUNT]) {
  unsigned n = 0;
  while (n + 1 < past->count && past_at(past, n)->at < at - 60 * NS_PER_S) {
    n++;
  }
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    fates[fate] = past->count > 0 ? now->fates[fate] - past_at(past, n)->fates[fate] : 0;
  }
}
