/* Executes framed-camera with its two sockets, and sends a running process another connection. */
#ifndef FRAMED_CAMERA_LAUNCH_H
#define FRAMED_CAMERA_LAUNCH_H

#include <sys/types.h>

#include "config/config.h"
#include "daemon/base/failure.h"

struct launched {
  pid_t pid;
  int control; /* the daemon's end of the control socket */
  int frames;  /* the daemon's end of the producer's connection, which does not block */
};

/* [any thread] Opens the program, once. */
bool launch_open(struct failure *failure);
/* Starts a process and sends it the start message. */
bool launch_process(const struct config_pipeline *pipeline, const char *pixels, struct launched *launched,
                    struct failure *failure);
/* Sends a running process another connection in place of the first; *frames is the daemon's end. */
bool launch_connection(int control, int *frames, struct failure *failure);

#endif
