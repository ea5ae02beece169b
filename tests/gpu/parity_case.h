/* One case of the parity of both backends: a stage with its parameters, a format, and the frames that are made of a seed. */
#ifndef FRAMED_TESTS_GPU_PARITY_CASE_H
#define FRAMED_TESTS_GPU_PARITY_CASE_H

#include "gpu/gpu.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/compare.h"

/* Memory for all cases, taken once, because registering it with a device takes long. */
struct parity_arena {
  unsigned char *base;
  size_t bytes, used;
};

struct parity_tally {
  unsigned cases, refused, left_out, failed;
  struct difference bytes, floats;
};

struct parity {
  struct gpu_device *device;
  bool exact; /* both sides are the host's own loops */
  struct parity_arena arena;
  struct parity_tally tally; /* of the current stage */
  struct stage_value values[STAGE_MAX_PARAMETERS];
};

/* Counts the case, with the parameters in `values`, as computed, refused or too large. False if the device is of no more use.
 */
bool parity_run_case(struct parity *test, const struct stage_about *stage, const struct frame_format *format, uint64_t seed);

#endif
