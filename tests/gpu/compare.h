/*
 * How far two results may be apart: 8 bit samples by one level, floats by 1e-5 of their size or by 1e-7 of the
 * largest value of the frame, since what nearly cancels cannot be known better in single precision. Two NaNs are
 * equal, and so are two infinities of one sign.
 */
#ifndef FRAMED_TESTS_GPU_COMPARE_H
#define FRAMED_TESTS_GPU_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What has been seen over any number of comparisons; begins as zeros. */
struct difference {
  double worst; /* in levels, or as a share of what 1e-5 is taken of */
  size_t unequal, samples;
  bool beyond;  /* a sample is further apart than it may be, */
  size_t first; /* this one; set once, until `beyond` is cleared */
};

void compare_bytes(struct difference *difference, const uint8_t *a, const uint8_t *b, size_t count);
void compare_floats(struct difference *difference, const float *a, const float *b, size_t count);

#endif
