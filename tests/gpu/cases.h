/*
 * The cases of the parity test: sizes, formats, parameter values and frames, all made from the stages' own
 * descriptors, so that a new stage is tested without a new line here. The same seed always gives the same case.
 */
#ifndef FRAMED_TESTS_GPU_CASES_H
#define FRAMED_TESTS_GPU_CASES_H

#include "gpu/stage.h"

enum { CASES_MAX_SETS = 64, CASES_MAX_FORMATS = PIXELS_COUNT + 5 };

/* How much one frame costs, which says how far parameters may go: extremes only where frames are small. */
enum cases_effort { CASES_TINY, CASES_SMALL, CASES_MEDIUM, CASES_LARGE };

struct cases_size {
  uint32_t width, height;
  enum cases_effort effort;
};

extern const struct cases_size cases_sizes[]; /* small to large, ended by 0 x 0 */

/* Small frames for kernels that only large ones get, which take rows of whole 16 bytes alone. */
extern const struct cases_size cases_as_if_large[];

/* Every pixel format, and tensors of both types and several ranks, of about this size, some as networks give them; of large
 * frames the usual formats alone. Returns how many. */
unsigned cases_formats(const struct cases_size *size, struct frame_format formats[CASES_MAX_FORMATS]);

/* Defaults, bounds, every choice, whole parts of the frame's size where there is a new one, and random values. Not all
 * combinations are ones that prepare() takes. */
unsigned cases_values(const struct stage_about *stage, const struct cases_size *size, uint64_t seed,
                      struct stage_value sets[CASES_MAX_SETS][STAGE_MAX_PARAMETERS]);

/* Random samples; frames after the first differ from it in places. Some floats are infinite, tiny or NaN. */
void cases_fill(const struct frame_format *format, void *data, uint64_t seed, unsigned frame);

/* "scale 2, mean [1, 2]", only what is given. Returns text. */
const char *cases_describe(const struct stage_about *stage, const struct stage_value *values, char *text, size_t size);

#endif
