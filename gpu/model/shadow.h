/*
 * A shadow: a second model that computes some of a model's frames, to be compared with it before it takes its place.
 *
 * Frames never wait for it. It takes a copy of one input at a time, and counts the frames that came while it was busy. A thread
 * of its own computes both models from that copy with the CPU's sessions, whatever the frames run on: so the two differ by what
 * is in their files alone, and not by the arithmetic of two devices. It rests most of the time, for the sake of the frames.
 */
#ifndef FRAMED_GPU_MODEL_SHADOW_H
#define FRAMED_GPU_MODEL_SHADOW_H

#include "gpu/model/model.h"

struct shadow;

/* Of two models with the same input and outputs, held for as long. NULL on error. Begins a thread. */
struct shadow *shadow_new(struct model *model, struct model *other, struct gpu_error *error);
struct shadow *shadow_free(struct shadow *shadow);             /* NULL is fine; returns NULL */
const struct model *shadow_other(const struct shadow *shadow); /* the second of them */

/* -- frames: any thread, and none waits ------------------------------------------------------------------------------- */

/* Whether the shadow may have this frame; else the frame is counted as skipped. Asked once a frame. */
bool shadow_wants(struct shadow *shadow);
/* Takes it for a frame of `owner` that it wanted, unless another frame has it by now: that one is skipped, too. */
bool shadow_take(struct shadow *shadow, const void *owner);
/* Compares this input, which stays until shadow_leave(). NULL: the copy in shadow_place(). */
void shadow_post(struct shadow *shadow, const void *input);
/* Memory for an input, of whoever took it. */
void *shadow_place(struct shadow *shadow);

/* For threads that set up: until no frame of that owner is in it. What was taken must have been posted. */
void shadow_leave(struct shadow *shadow, const void *owner);

/* -- what it found ----------------------------------------------------------------------------------------------------- */

struct shadow_report {
  const char *file;                   /* of the second model; NULL: there is no shadow */
  uint64_t compared, skipped, failed; /* frames; failed: one of the two could not compute it */
  double largest, mean;               /* difference of two elements of an output, and that of all on average */
  uint64_t unlike;                    /* elements of which one is no number and the other is */
  double agreement;                   /* share of the rows of the first output whose largest element is at the same place */
};

void shadow_report(struct shadow *shadow, struct shadow_report *report);

#endif
