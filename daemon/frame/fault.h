/*
 * A device that failed, as operators are told of it: the error, who saw it, and which frames were there. Nobody can tell which
 * of them it was: an error of a kernel shows only later, on whatever is asked next, so that all stages of the chain and all
 * frames on the device are named.
 */
#ifndef FRAMED_FRAME_FAULT_H
#define FRAMED_FRAME_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/device/device.h"

enum { NO_DEVICE = 0xFFFF };
enum { FAULT_LIST = 256, FAULT_TEXT = 1024 };

struct fault {
  unsigned device;      /* or NO_DEVICE: it is not known */
  const char *pipeline; /* one of whose sessions saw it, or NULL: the daemon's own check-up did */
  struct gpu_error error;
  unsigned generation;         /* of the device: which of its workers it was */
  unsigned frames;             /* of that session on the device, */
  uint64_t epoch, first, last; /* their names: the epoch of the first, and the numbers, */
  char stages[FAULT_LIST];     /* and "convert, motion", of its chain */
  char others[FAULT_LIST];     /* "3 of cam1, 1 of cam2": other frames on the device */
};

/* Seen by the check-up. */
void fault_of_device(struct fault *fault, unsigned device, const char *text);
/* Names a stage more, or so many frames more. */
void fault_add_stage(struct fault *fault, const char *name);
void fault_add_others(struct fault *fault, uint64_t frames, const char *pipeline);

/* "ERROR; frames 20 to 21 of epoch 1764 were on the device (stages convert, motion), and 3 of cam1". Returns `text`. */
const char *fault_describe(const struct fault *fault, char text[FAULT_TEXT]);
/* One entry of the log, with all of it as fields for the journal: what failed, what follows from that, and the remedy. */
void fault_log(const struct fault *fault, const char *outcome);

#endif
