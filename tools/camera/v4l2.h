/* A camera of this machine, by Video4Linux: its pictures as packets, compressed or not. */
#ifndef FRAMED_TOOLS_CAMERA_V4L2_H
#define FRAMED_TOOLS_CAMERA_V4L2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>

#include "tools/camera/settings.h"

enum { V4L2_BUFFERS = 4 };

struct v4l2 {
  int fd;                   /* to wait for; -1: not open */
  AVCodecParameters *codec; /* of the packets */
  struct {
    void *data;
    size_t bytes;
  } buffers[V4L2_BUFFERS]; /* shared with the driver */
  unsigned count;
};

/* Opens the device of the settings' address, in a size near that of the frames. v4l2_close() is due also after failure. */
bool v4l2_open(struct v4l2 *v4l2, const struct settings *settings, struct reason *reason);
void v4l2_close(struct v4l2 *v4l2);

/*
 * Takes the next picture without waiting. Returns 1, 0 if no picture has come, or an error of libavformat. `captured` becomes
 * the time at which the driver got it, CLOCK_MONOTONIC, or 0 if the driver does not say.
 */
int v4l2_take(struct v4l2 *v4l2, AVPacket *packet, int64_t *captured);

#endif
