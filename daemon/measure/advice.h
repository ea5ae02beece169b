/* The sentences of a diagnosis, and of a pipeline that waits for its model what would help that. */
#ifndef FRAMED_MEASURE_ADVICE_H
#define FRAMED_MEASURE_ADVICE_H

#include "daemon/measure/diagnosis.h"

/* What would help, how many times as many frames it lets pass (1: nobody can foretell that), and how people are told. */
__attribute__((format(printf, 4, 5))) void advise(struct diagnosis *diagnosis, enum improvement improvement, double gain,
                                                  const char *format, ...);

/* The slots of a session with one more on each of its devices. */
unsigned advice_more_slots(const struct diagnosis_figures *figures);

/* Of the time that the stages take for a frame, the share of its model: of a batch, the frame's part. */
double advice_model_share(const struct diagnosis_figures *figures);
/* Whether all instances compute all the time: more frames on the device would only wait for them. */
bool advice_model_is_busy(const struct diagnosis_figures *figures);
/* The model is what frames wait for. */
void advise_model(const struct diagnosis_figures *figures, struct diagnosis *diagnosis);

#endif
