/* Frames to the daemon, as a producer of the native protocol on the connection that the daemon made. */
#ifndef FRAMED_TOOLS_CAMERA_OUTPUT_H
#define FRAMED_TOOLS_CAMERA_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/client/framed.h"

struct output {
  struct framed *client;
  uint64_t frames;  /* submitted */
  uint64_t dropped; /* no slot was free */
  uint64_t sequence;
};

/* False with the reason in `text`. Takes `fd`. */
bool output_open(struct output *output, int fd, size_t frame_bytes, char *text, size_t room);
/* Takes another connection in place of the open one. The counts stay. */
bool output_change(struct output *output, int fd, size_t frame_bytes, char *text, size_t room);
void output_close(struct output *output);

/* Room for a frame; NULL if no slot is free at this moment. */
void *output_acquire(struct output *output);
void output_drop(struct output *output);
void output_cancel(struct output *output, void *frame);

/* `arrival`: CLOCK_MONOTONIC. */
void output_submit(struct output *output, void *frame, int64_t arrival);

/* Moves bytes both ways, waiting up to `ns` while a frame is on its way. False: the daemon ended the connection. */
bool output_turn(struct output *output, int64_t ns);

/* Waits up to `ns` for a free slot. False: none is free, or the connection has ended. */
bool output_wait(struct output *output, int64_t ns);

#endif
