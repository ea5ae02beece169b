/* Reports of a camera to the daemon: one message of JSON at each change, and one each second. */
#ifndef FRAMED_TOOLS_CAMERA_REPORT_H
#define FRAMED_TOOLS_CAMERA_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/camera/picture.h"
#include "tools/camera/reason.h"

enum report_state { REPORT_CONNECTING, REPORT_RUNNING, REPORT_WAITING };

struct report {
  enum report_state state;
  struct reason reason;
  const char *codec;      /* NULL: not known yet, as all of the figures below */
  unsigned width, height; /* of the camera's picture */
  struct fit fit;         /* where it is in the frame */
  double rate;            /* pictures a second */
  double bitrate;         /* bits a second */
  uint64_t frames, dropped, lost;
  uint64_t reconnects;
  bool has_wall;      /* the camera's clock can be used */
  double clock_ahead; /* by how many seconds it is ahead of this machine's; 0 without a report of the camera */
  double retry;       /* seconds until the next try, while waiting */
};

enum { REPORT_MOST = 4096 };

/* Writes the message. Returns its bytes, 0 without memory. */
size_t report_write(const struct report *report, char text[REPORT_MOST]);

/* Never waits: a daemon that does not read misses messages. */
void report_send(const struct report *report, int fd);

#endif
