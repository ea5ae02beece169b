#include "tools/framebench/common/samples.h"

#include <math.h>
#include <stdlib.h>

bool samples_add(struct samples *samples, double value) {
  if (samples->count == samples->room) {
    size_t room = samples->room ? samples->room * 2 : 1024;
    double *values = realloc(samples->values, room * sizeof *values);
    if (!values) {
      return false;
    }
    samples->values = values;
    samples->room = room;
  }
  samples->values[samples->count++] = value;
  return true;
}

void samples_free(struct samples *samples) {
  free(samples->values);
  *samples = (struct samples){0};
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double samples_percentile(struct samples *samples, double share) {
  if (samples->count == 0) {
    return 0;
  }
  qsort(samples->values, samples->count, sizeof *samples->values, compare);
  double rank = ceil(share * (double)samples->count);
  return samples->values[rank < 1 ? 0 : rank > (double)samples->count ? samples->count - 1 : (size_t)rank - 1];
}
