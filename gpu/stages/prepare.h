/*
 * What the prepare() functions of the stages share: reading parameter values, filling sizes, refusing formats.
 *
 * Constants travel from prepare() to run() and enqueue() as bytes of the plan, so they are always copied in and
 * out and never pointed at: the plan's bytes have no type of their own.
 */
#ifndef FRAMED_GPU_STAGES_PREPARE_H
#define FRAMED_GPU_STAGES_PREPARE_H

#include "gpu/record/parameters.h"
#include "gpu/stage.h"

#include <string.h>

#define STAGE_SET_CONSTANTS(plan, pointer)                                                                                     \
  do {                                                                                                                         \
    _Static_assert(sizeof *(pointer) <= STAGE_CONSTANTS, "constants too large");                                               \
    memcpy((plan)->constants, (pointer), sizeof *(pointer));                                                                   \
  } while (0)

#define STAGE_GET_CONSTANTS(plan, pointer) memcpy((pointer), (plan)->constants, sizeof *(pointer))

/* Fills input_bytes and output_bytes from the plan's two formats; false and a problem if one is too large. */
bool stage_fill_sizes(struct stage_plan *plan, char problem[STAGE_TEXT]);

/* The same after making the output format the input's. */
bool stage_keep_format(struct stage_plan *plan, char problem[STAGE_TEXT]);

/* Where to keep a file that prepare() reads. */
struct kept_file *stage_file(struct stage_plan *plan);

/* Writes "takes WHAT, not FORMAT; REMEDY" and returns false. `remedy` may be NULL. */
bool stage_refuse(const struct stage_plan *plan, char problem[STAGE_TEXT], const char *what, const char *remedy);

/* Channels of a pixel format whose samples are interleaved or single (gray 1, rgb24 3); 0 for all others. */
unsigned stage_channels(const struct frame_format *format);

/* The number for channel `index`: one number stands for all channels. */
double stage_channel_number(const struct stage_value *value, unsigned index);

/* Whether a list has one number or one for each channel; otherwise false and a problem that names `name`. */
bool stage_check_channels(const struct stage_value *value, unsigned channels, const char *name, char problem[STAGE_TEXT]);

#endif
