/* Trials as rows of results. */
#ifndef FRAMED_FRAMEBENCH_LOAD_REPORT_H
#define FRAMED_FRAMEBENCH_LOAD_REPORT_H

#include "tools/framebench/common/results.h"
#include "tools/framebench/load/trial.h"

extern const struct section load_section, load_frames_section;

/* A row of load_section with the external view of a trial; the caller releases it. NULL without memory. */
json_t *load_report_row(const struct load_target *target, const struct load_plan *plan, const struct load_outcome *outcome);

/*
 * Measures these pipelines of the daemon at `socket` for `seconds`, after a warm-up of a quarter of that. It continues longer
 * if no result came back. Returns the row, or NULL on a problem.
 */
json_t *load_report_measure(const char *socket, const char *const *names, unsigned count, const struct load_plan *wanted,
                            double seconds, struct problem *problem);

/* Adds a row for each pipeline with the fates of its frames. */
void load_report_frames(struct results *results, const struct load_target *target, const struct load_outcome *outcome);

#endif
