/*
 * A user's library as a stage: found, opened and judged here, called through the table of framed-stage.h.
 *
 * It is part of the process from then on. `library` calls it for its own stage, `kernel` for what stands in for a kernel on the
 * CPU backend.
 */
#ifndef FRAMED_GPU_STAGES_LIBRARY_LIBRARY_H
#define FRAMED_GPU_STAGES_LIBRARY_LIBRARY_H

#include "gpu/stage.h"
#include "gpu/stages/library/framed-stage.h"

struct library;

/* Opens the library and lets it prepare itself for `input`; `file` without a slash is one of the working directory. NULL: the
 * plan's remedy and `problem` say why. */
struct library *library_open(struct stage_plan *plan, const char *file, const struct stage_value *settings,
                             char problem[STAGE_TEXT]);
struct library *library_close(struct library *library); /* NULL is fine; returns NULL */

const struct framed_stage *library_table(const struct library *library);
const struct framed_stage_plan *library_plan(const struct library *library);
/* Runs one frame on the CPU; a failure is said in the call. */
void library_run(const struct library *library, const struct stage_call *call);

/* A path that dlopen() takes for one, and never for a name to search for. */
const char *library_path(const char *file, char *path, size_t size);

#endif
