/* A plan's timeline as lines of characters: one row an engine, a digit for each stretch of time in which it serves. */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_TIMELINE_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/measure/overlap.h"

/* How many frames, up to `frames`, can be drawn so that each is seen in a picture of `columns`; at least 1. */
uint64_t timeline_frames(const struct overlap_work *work, uint64_t frames, unsigned columns);
/* Draws that many frames of the work from its start; times are microseconds. With `colour` frames of one slot have one
 * colour. False if there is no memory. */
bool timeline_draw(FILE *out, const struct overlap_work *work, uint64_t frames, unsigned columns, bool colour);

#endif
