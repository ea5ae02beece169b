/* Names of classes, from a file with one a line: the first is that of class 0. */
#ifndef FRAMED_GPU_STAGES_LABELS_H
#define FRAMED_GPU_STAGES_LABELS_H

#include "gpu/stage.h"

/* Reads the file that the value names into the plan, which owns the names as its object; without one, the plan keeps those of
 * the stage before. False and a problem if it cannot be read. */
bool labels_read(struct stage_plan *plan, const struct stage_value *value, char problem[STAGE_TEXT]);

/* Whether there are as many names as classes, if there are names; otherwise false and a problem. */
bool labels_check(const struct stage_plan *plan, uint64_t classes, char problem[STAGE_TEXT]);

/* Frees them: release() of the stages that read them. */
void labels_release(struct stage_plan *plan);

#endif
