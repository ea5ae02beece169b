/* The table of the stages' code, in the order of their records. Linking fails if a stage of stages.def has no descriptor. */
#include "gpu/stage.h"

#include <stddef.h>

#define STAGE(name) extern const struct stage_descriptor name##_stage;
#include "gpu/record/stages.def"
#undef STAGE

const struct stage_descriptor *const stage_descriptors[] = {
#define STAGE(name) &name##_stage,
#include "gpu/record/stages.def"
#undef STAGE
    NULL,
};

const struct stage_descriptor *stage_of(const struct stage_about *about) {
  const struct stage_descriptor *const *stage = stage_descriptors;
  while (*stage && (*stage)->about != about) {
    stage++;
  }
  return *stage;
}
