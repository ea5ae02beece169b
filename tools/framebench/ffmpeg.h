/* ffmpeg's filters beside the stages of the cpu backend, at 1080p, each with as many threads. */
#ifndef FRAMED_TOOLS_FRAMEBENCH_FFMPEG_H
#define FRAMED_TOOLS_FRAMEBENCH_FFMPEG_H

#include "tools/framebench/options.h"
#include "tools/framebench/results.h"

/* Adds a section; no row where ffmpeg is not installed. */
bool ffmpeg_rows(struct results *results, const struct options *options, struct problem *problem);

#endif
