/*
 * The CPU loop of a stage that makes each sample of the result from the same sample of the frame, in any format.
 *
 * NAME.h brings `struct NAME_constants` and the arithmetic, NAME_byte() and NAME_float(); STAGE_EACH_SAMPLE(NAME) makes run()
 * of them. A macro, since only with the arithmetic inlined is the loop vectorised. On the device launch_samples() does this.
 */
#ifndef FRAMED_GPU_STAGES_SAMPLES_H
#define FRAMED_GPU_STAGES_SAMPLES_H

#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#define STAGE_EACH_SAMPLE(name)                                                                                                \
  STAGE_VECTOR                                                                                                                 \
  static void run_bytes(const uint8_t *restrict in, uint8_t *restrict out, size_t count, struct name##_constants constants) {  \
    for (size_t i = 0; i < count; i++) {                                                                                       \
      out[i] = name##_byte(in[i], constants);                                                                                  \
    }                                                                                                                          \
  }                                                                                                                            \
                                                                                                                               \
  STAGE_VECTOR                                                                                                                 \
  static void run_floats(const float *restrict in, float *restrict out, size_t count, struct name##_constants constants) {     \
    for (size_t i = 0; i < count; i++) {                                                                                       \
      out[i] = name##_float(in[i], constants);                                                                                 \
    }                                                                                                                          \
  }                                                                                                                            \
                                                                                                                               \
  static void run(const struct stage_plan *plan, const struct stage_call *call) {                                              \
    struct name##_constants constants;                                                                                         \
    STAGE_GET_CONSTANTS(plan, &constants);                                                                                     \
    size_t count = format_samples(&plan->input);                                                                               \
    if (plan->input.dtype == ELEMENT_FLOAT32) {                                                                                \
      run_floats(call->input, call->output, count, constants);                                                                 \
    } else {                                                                                                                   \
      run_bytes(call->input, call->output, count, constants);                                                                  \
    }                                                                                                                          \
  }

#endif
