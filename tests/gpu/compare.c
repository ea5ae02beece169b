/* See compare.h. */
#include "tests/gpu/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RELATIVE 1e-5
#define CANCELS  1e-7

static void note(struct difference *difference, size_t index, double distance, bool within) {
  difference->unequal += distance != 0;
  difference->worst = fmax(difference->worst, distance);
  if (!within && !difference->beyond) {
    difference->beyond = true;
    difference->first = index;
  }
}

void compare_bytes(struct difference *difference, const uint8_t *a, const uint8_t *b, size_t count) {
  difference->samples += count;
  if (memcmp(a, b, count) == 0) {
    return;
  }
  for (size_t i = 0; i < count; i++) {
    int distance = abs(a[i] - b[i]);
    note(difference, i, distance, distance <= 1);
  }
}

static double largest_of(const float *values, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; i++) {
    double size = fabs((double)values[i]);
    largest = isfinite(size) && size > largest ? size : largest;
  }
  return largest;
}

static bool both_special(float a, float b) { return (isnan(a) && isnan(b)) || (isinf(a) && a == b); }

void compare_floats(struct difference *difference, const float *a, const float *b, size_t count) {
  difference->samples += count;
  if (memcmp(a, b, count * sizeof *a) == 0) {
    return;
  }
  const double least = largest_of(a, count) * CANCELS / RELATIVE;
  for (size_t i = 0; i < count; i++) {
    double distance = fabs((double)a[i] - (double)b[i]);
    if (a[i] == b[i] || both_special(a[i], b[i])) {
      continue;
    }
    double share = distance / fmax(least, fmax(fabs((double)a[i]), fabs((double)b[i])));
    note(difference, i, isfinite(distance) ? share : INFINITY, isfinite(distance) && share <= RELATIVE);
  }
}
