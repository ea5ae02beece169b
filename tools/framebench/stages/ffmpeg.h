/* ffmpeg's filters beside the stages of the cpu backend, at 1080p, each with as many threads. */
#ifndef FRAMED_FRAMEBENCH_STAGES_FFMPEG_H
#define FRAMED_FRAMEBENCH_STAGES_FFMPEG_H

#include "tools/framebench/common/options.h"
#include "tools/framebench/common/results.h"

/* Adds a section; no row where ffmpeg is not installed. */
bool ffmpeg_rows(struct results *results, const struct options *options, struct problem *problem);

#endif
