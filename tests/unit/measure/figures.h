/* Figures of pipelines whose diagnosis is known. */
#ifndef FRAMED_TESTS_UNIT_DAEMON_FIGURES_H
#define FRAMED_TESTS_UNIT_DAEMON_FIGURES_H

#include "daemon/measure/diagnosis.h"

#define EPSILON 1e-6

/* A pipeline that is always full: a frame every `pace` us for ten seconds, with the rest of a slot's round in gpu_wait. */
struct diagnosis_figures full(double h2d, double kernel, double d2h, unsigned slots, double pace);

struct diagnosis diagnosis_of(const struct diagnosis_figures *figures);
void expect_advice(const struct diagnosis *diagnosis, enum improvement improvement, const char *part, double gain);

#endif
