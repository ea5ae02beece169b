/* Measured frames as a picture, one row an engine: characters for a terminal, and SVG. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_PICTURE_H
#define FRAMED_FRAMEBENCH_OVERLAP_PICTURE_H

#include "daemon/measure/overlap.h"

#include <stdbool.h>
#include <stdio.h>

/* Spans are in microseconds on one axis, which is drawn from the first begin to the last end. A digit stands for the
 * frame's number; where two frames share a cell, the later one is seen. */
void picture_text(FILE *out, const struct overlap_frame *frames, uint64_t count, unsigned columns);
void picture_svg(FILE *out, const struct overlap_frame *frames, uint64_t count, const char *title);

/* From the first begin to the last end. */
struct overlap_span picture_extent(const struct overlap_frame *frames, uint64_t count);

#endif
