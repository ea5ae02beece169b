/* The start message of the daemon: JSON, with the password. */
#ifndef FRAMED_TOOLS_CAMERA_SETTINGS_H
#define FRAMED_TOOLS_CAMERA_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavutil/pixfmt.h>

#include "tools/camera/address.h"
#include "tools/camera/reason.h"

enum { SETTINGS_MOST = 16384 }; /* bytes of the message */

struct settings {
  struct address address;
  unsigned width, height; /* of the frames; 0: as the camera sends them (--try) */
  enum AVPixelFormat pixels;
  bool udp;
  int64_t silence; /* ns without a packet after which a stream counts as silent, at least */
};

/* settings_clear() is due also after failure. */
bool settings_read(struct settings *settings, const char *text, size_t length, struct reason *reason);
void settings_clear(struct settings *settings);

#endif
