/* The table of all stages, made from stages.def: a stage that is not listed there does not exist. */
#include "gpu/stage.h"

#include <string.h>

#define STAGE(name) extern const struct stage_descriptor name##_stage;
#include "gpu/stages.def"
#undef STAGE

const struct stage_descriptor *const stage_descriptors[] = {
#define STAGE(name) &name##_stage,
#include "gpu/stages.def"
#undef STAGE
    NULL,
};

const struct stage_descriptor *stage_find(const char *name) {
  for (const struct stage_descriptor *const *stage = stage_descriptors; *stage; stage++) {
    if (strcmp((*stage)->name, name) == 0) {
      return *stage;
    }
  }
  return NULL;
}
