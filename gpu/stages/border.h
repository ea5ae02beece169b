/* What lies beyond the edge of an image: its mirror image, the edge itself not repeated, as often as it takes. */
#ifndef FRAMED_GPU_STAGES_BORDER_H
#define FRAMED_GPU_STAGES_BORDER_H

#include "gpu/stage.h"

/* Index within [0, size) of the sample that stands at `index`, which may be any number; 2 1 | 0 1 2 3 | 2 1. */
STAGE_INLINE int32_t border_reflect(int32_t index, int32_t size) {
  if (index >= 0 && index < size) {
    return index;
  }
  if (size == 1) {
    return 0;
  }
  int32_t period = 2 * (size - 1);
  int32_t within = index % period;
  within = within < 0 ? within + period : within;
  return within < size ? within : period - within;
}

#endif
