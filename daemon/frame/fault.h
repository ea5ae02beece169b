/*
 * The report of a device failure for operators: the error, and which frames were on the device. A CUDA error
 * shows only at a later call, so nobody can tell which kernel caused it. The report therefore names all stages of the chain and
 * all frames on the device.
 */
#ifndef FRAMED_FRAME_FAULT_H
#define FRAMED_FRAME_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/device/device.h"

enum { NO_DEVICE = 0xFFFF };
enum { FAULT_LIST = 256, FAULT_TEXT = 1024 };

struct fault {
  unsigned device;      /* NO_DEVICE: unknown */
  const char *pipeline; /* of the session with the oldest frame on the device; NULL: no frame was there */
  struct gpu_error error;
  unsigned frames;             /* frames of that session on the device */
  uint64_t epoch, first, last; /* epoch and number of the first frame, number of the last */
  char stages[FAULT_LIST];     /* "convert, motion": stages of its chain */
  char others[FAULT_LIST];     /* "3 of cam1, 1 of cam2": other frames on the device */
};

/* A failure that the daemon's own check noticed. */
void fault_of_device(struct fault *fault, unsigned device, const char *text);
/* Append a stage, or frames of another pipeline. */
void fault_add_stage(struct fault *fault, const char *name);
void fault_add_others(struct fault *fault, uint64_t frames, const char *pipeline);

/* "ERROR; frames 20 to 21 of epoch 1764 were on the device (stages convert, motion), and 3 of cam1". Returns `text`. */
const char *fault_describe(const struct fault *fault, char text[FAULT_TEXT]);
/* Writes one log entry with all fields for the journal. It says what failed, what happens next, and the remedy. */
void fault_log(const struct fault *fault, const char *outcome);

#endif
