/* A plan's timeline as text: one row for each engine, with a frame's digit while the engine serves it. */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_TIMELINE_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/measure/overlap.h"

/* The number of frames, from 1 to `frames`, that a picture of `columns` can show. */
uint64_t timeline_frames(const struct overlap_work *work, uint64_t frames, unsigned columns);
/*
 * Draws the first `frames` frames of the work; times are in microseconds. With `colour`, each slot has its own colour. False if
 * there is no memory.
 */
bool timeline_draw(FILE *out, const struct overlap_work *work, uint64_t frames, unsigned columns, bool colour);

#endif
