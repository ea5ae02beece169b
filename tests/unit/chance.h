/* Walks at random beside a model: the same ones each time, and where a walk was when something did not hold. */
#ifndef FRAMED_TESTS_UNIT_ROAD_CHANCE_H
#define FRAMED_TESTS_UNIT_ROAD_CHANCE_H

#include <check.h>
#include <stdint.h>

extern unsigned run, step;

/* Cheaper than ck_assert, which notes every line it passes. */
#define CHECK(condition)                                                                                                       \
  do {                                                                                                                         \
    if (!(condition)) {                                                                                                        \
      ck_abort_msg("line %d, run %u, step %u: %s", __LINE__, run, step, #condition);                                           \
    }                                                                                                                          \
  } while (0)

void chance_begin(uint64_t seed);
/* 0 to below - 1. */
unsigned chance(unsigned below);

#endif
