/* The texts of a diagnosis, and the advice for a pipeline that waits for its model. */
#ifndef FRAMED_MEASURE_ADVICE_H
#define FRAMED_MEASURE_ADVICE_H

#include "daemon/measure/diagnosis.h"

/* Sets the improvement, its gain in frames (1: cannot be predicted), and its text for people. */
__attribute__((format(printf, 4, 5))) void advise(struct diagnosis *diagnosis, enum improvement improvement, double gain,
                                                  const char *format, ...);

/* The slots of a session with one more on each of its devices. */
unsigned advice_more_slots(const struct diagnosis_figures *figures);

/* The model's share of the time that the stages take for a frame. For a batch, the share of one frame. */
double advice_model_share(const struct diagnosis_figures *figures);
/* True if all instances compute all the time, so that more frames on the device would only wait. */
bool advice_model_is_busy(const struct diagnosis_figures *figures);
/* Advice if frames wait for the model. */
void advise_model(const struct diagnosis_figures *figures, struct diagnosis *diagnosis);

#endif
