/* Limits starts: at most two processes a core start at once, in the order of their requests. */
#ifndef FRAMED_CAMERA_TURNS_H
#define FRAMED_CAMERA_TURNS_H

#include <stdbool.h>

#include "daemon/camera/camera.h"

struct turn { /* zero: neither waits nor starts */
  struct turn *next;
  bool waits, starts;
  void (*begin)(void *context);
  void *context;
};

/* Calls begin() as soon as it is this one's turn, which may be before this returns. turn_end() follows. */
void turn_request(struct cameras *cameras, struct turn *turn);
/* The start is over, or is no longer wanted. Idempotent. May call begin() of others. */
void turn_end(struct cameras *cameras, struct turn *turn);

#endif
