/* Many cameras on many devices, foretold from what one device here does; and how well that device is foretold. */
#ifndef FRAMED_FRAMEBENCH_SCALE_FORESEE_H
#define FRAMED_FRAMEBENCH_SCALE_FORESEE_H

#include "tools/framebench/scale/scale.h"

/* Adds its sections and targets. */
bool foresee(const struct scale *scale, struct problem *problem);

#endif
