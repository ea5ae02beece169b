/* The table of all stages, made from stages.def: the build has only the stages listed there. */
#include "gpu/record/stage_about.h"

#include <stddef.h>
#include <string.h>

const struct stage_about *const stage_abouts[] = {
#define STAGE(name) &name##_about,
#include "gpu/record/stages.def"
#undef STAGE
    NULL,
};

const struct stage_about *stage_about_find(const char *name) {
  for (const struct stage_about *const *about = stage_abouts; *about; about++) {
    if (strcmp((*about)->name, name) == 0) {
      return *about;
    }
  }
  return NULL;
}
