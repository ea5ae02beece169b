#include "tests/unit/chance.h"

unsigned run, step;
static uint64_t state;

void chance_begin(uint64_t seed) { state = seed; }

unsigned chance(unsigned below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(state >> 33) % below;
}
