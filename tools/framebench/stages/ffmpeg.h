/* ffmpeg's filters compared with the stages of the cpu backend, at 1080p with the same number of threads. */
#ifndef FRAMED_FRAMEBENCH_STAGES_FFMPEG_H
#define FRAMED_FRAMEBENCH_STAGES_FFMPEG_H

#include "tools/framebench/common/options.h"
#include "tools/framebench/common/results.h"

/* Adds a section; it has no row if ffmpeg is not installed. */
bool ffmpeg_rows(struct results *results, const struct options *options, struct problem *problem);

#endif
