/*
 * The status messages of framed-camera, one JSON object each. That process reads hostile bytes, so every value is checked.
 *
 * Numbers outside of their range are left out, as are words with other letters. A message that is no such object at all is
 * garbage.
 */
#ifndef FRAMED_CAMERA_STATUS_H
#define FRAMED_CAMERA_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CAMERA_MESSAGE = 4096, CAMERA_WORD = 32, CAMERA_TEXT = 256 };

enum camera_state {
  CAMERA_STARTING,   /* no process yet, or one that has said nothing */
  CAMERA_CONNECTING, /* it asks the camera */
  CAMERA_RUNNING,    /* pictures come */
  CAMERA_WAITING,    /* something is wrong, and it tries again after a pause */
  CAMERA_STATES
};

extern const char *const camera_state_names[CAMERA_STATES];

struct camera_view {
  enum camera_state state;
  char token[CAMERA_WORD]; /* what is wrong, in one word such as "camera.refused"; "": nothing */
  char text[CAMERA_TEXT];  /* and in a sentence that is safe to print */
  char codec[CAMERA_WORD], decoder[CAMERA_WORD];
  char time[CAMERA_WORD]; /* where the times of frames come from: "rtcp" or "arrival" */
  unsigned width, height; /* of the camera's own pictures; 0: not known yet */
  unsigned picture[4];    /* x, y, width and height of the picture within a frame; the rest of the frame is black */
  double rate, bitrate;   /* pictures a second, bits a second */
  double retry;           /* seconds until the next try */
  uint64_t frames, lost, reconnects;
};

/* Fills the view from a message. False: garbage, and the view is as it was. */
bool camera_hear(struct camera_view *view, const char *message, size_t length);

#endif
