/*
 * stats: smallest, largest and mean sample and a histogram, as one float32 tensor of 260 elements:
 *
 *   [0] minimum   [1] maximum   [2] mean   [3] share of the samples that were counted, 0 to 1
 *   [4 + b]       share of the counted samples that fall into bin b of 256, b = 0 to 255
 *
 * Bin b covers low + b * (high - low) / 256 up to the next bin; what lies outside counts in the first or last
 * one. Infinities and NaN are not counted; if nothing is, all elements are 0. The channels of rgb24 and bgr24
 * are counted together.
 *
 * Results do not depend on how many threads run: counts are integers, and sums of floats are formed in double
 * precision in one fixed order. A chunk of STATS_CHUNK samples is added up in STATS_LANES lanes (lane l takes
 * samples l, l + STATS_LANES, ...), and the lanes are added pairwise, l with l + width for width = half the lanes
 * down to 1. The sums of the chunks are added up in the same way, in STATS_SUM_LANES lanes.
 */
#ifndef FRAMED_GPU_STAGES_STATS_H
#define FRAMED_GPU_STAGES_STATS_H

#include "gpu/stages/arithmetic.h"

enum {
  STATS_LANES = 32,
  STATS_CHUNK = 1024,
  STATS_SUM_LANES = 1024,
  STATS_BINS = 256,
  STATS_PARTS = 132, /* blocks that count bytes: one for each processor of large devices */
  STATS_MINIMUM = 0,
  STATS_MAXIMUM,
  STATS_MEAN,
  STATS_COUNTED,
  STATS_HISTOGRAM,
  STATS_ELEMENTS = STATS_HISTOGRAM + STATS_BINS
};

struct stats_constants {
  float low;
  float bins_per_unit;
  uint64_t samples;
};

/* What the CUDA backend gathers of float samples in the slot's scratch memory, zeroed first: `lowest` and `highest` are the
 * greatest of ~key and key. Of bytes it keeps there how often each level occurs, in up to STATS_PARTS parts of 32 bit each. */
struct stats_totals {
  unsigned long long bins[STATS_BINS];
  uint32_t lowest, highest;
  /* then one double for each chunk of float samples */
};

extern const struct stage_descriptor stats_stage;

int stats_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

STAGE_INLINE uint64_t stats_chunks(uint64_t count) { return (count + STATS_CHUNK - 1) / STATS_CHUNK; }

STAGE_INLINE uint32_t stats_bin(float value, struct stats_constants constants) {
  return arithmetic_whole(arithmetic_clamp((value - constants.low) * constants.bins_per_unit, 0.0F, 255.0F));
}

STAGE_INLINE bool stats_is_counted(float value) { return (arithmetic_bits(value) & 0x7f800000U) != 0x7f800000U; }

/* An integer that orders as the finite floats do, never 0; both zeros have one key. */
STAGE_INLINE uint32_t stats_key(float value) {
  uint32_t bits = arithmetic_bits(value + 0.0F);
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}

STAGE_INLINE float stats_from_key(uint32_t key) { return arithmetic_from_bits(key & 0x80000000U ? key & 0x7fffffffU : ~key); }

STAGE_INLINE float stats_ratio(double part, double whole) { return whole > 0 ? (float)(part / whole) : 0.0F; }

#endif
