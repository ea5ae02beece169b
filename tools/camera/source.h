/*
 * One connection to a camera: packets of its video, one at a time, each with a deadline.
 *
 * libavformat blocks. It calls `pulse` at least every 100 ms, so that the program does its other duties meanwhile, and stops at
 * the deadline. Looking up a name cannot be interrupted in this way: main.c limits it.
 */
#ifndef FRAMED_TOOLS_CAMERA_SOURCE_H
#define FRAMED_TOOLS_CAMERA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <libavformat/avformat.h>

#include "tools/camera/assembly.h"
#include "tools/camera/settings.h"
#include "tools/camera/v4l2.h"

struct source {
  const struct settings *settings;
  bool (*pulse)(void *owner); /* false: the program ends */
  void *owner;
  AVFormatContext *format;  /* NULL for a camera of this machine, */
  struct v4l2 v4l2;         /* which comes from there */
  struct assembly assembly; /* of pictures that come by RTP; its codec is 0 for others */
  AVPacket *packet;         /* the last one, until the next read */
  int stream;               /* index of the video; -1: not known yet */
  int64_t deadline;         /* CLOCK_MONOTONIC */
  bool opened, closing;

  int64_t arrival;  /* of the first bytes of the last packet, CLOCK_MONOTONIC */
  int64_t returned; /* when libavformat returned it */
  int64_t stamped;  /* ns between packets by their time stamps, averaged; 0: not known */
  int64_t waited;   /* the same by their arrivals */
  unsigned count;   /* packets of the video, up to a few */
  int64_t last_pts; /* ns */
  bool has_pts;
  int64_t offset;          /* least difference of arrival and time stamp, ns */
  int64_t lag;             /* of the last packet behind that */
  int64_t jumped;          /* when a time stamp last jumped, CLOCK_MONOTONIC; 0: never */
  double jump;             /* by so many seconds */
  bool has_wall;           /* the last packet has wall-clock time by RTCP, */
  int64_t wall_offset;     /* which was so many ns ahead of this machine's clock */
  uint64_t bytes, packets; /* packets of RTP, estimated where they are not known */
};

/* Opens the address of the settings. source_close() is due also after failure. */
bool source_open(struct source *source, const struct settings *settings, bool (*pulse)(void *owner), void *owner,
                 struct reason *reason);

/* Waits for the next packet of the video. */
bool source_read(struct source *source, struct reason *reason);

/* The time between two packets in ns; 0: not known yet. HLS sends bursts, and MJPEG invents time stamps: the longer one counts.
 */
int64_t source_interval(const struct source *source);

const AVCodecParameters *source_codec(const struct source *source);

/* Also ends the session at the camera, within half a second, so that the camera can serve another client. */
void source_close(struct source *source);

#endif
