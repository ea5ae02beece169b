/*
 * camera/: a source that is a URL: the process framed-camera of a pipeline, which the daemon starts and watches.
 *
 * framed-camera connects to the camera, decodes, and is a producer of the native protocol; its connection is a socket pair, of
 * which the pipeline gets one end. It reads what a camera sends, so the daemon believes nothing of what it says: a process that
 * sends garbage, floods, or stops talking is killed. A process that has ended is started again, after a pause that doubles from
 * 0.5 to 30 s. The user and password travel in the one message that it gets, never in arguments or the environment.
 *
 * Control loop only, but for camera_check().
 */
#ifndef FRAMED_CAMERA_CAMERA_H
#define FRAMED_CAMERA_CAMERA_H

#include <sys/types.h>
#include <uv.h>

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/camera/status.h"
#include "daemon/measure/trouble.h"

/* Limits how many processes start at once: after a power cut 150 cameras would start in the same moment. */
struct cameras;
struct cameras *cameras_new(void);                     /* NULL: no memory */
struct cameras *cameras_free(struct cameras *cameras); /* after all of its cameras have ended; NULL is fine; returns NULL */

struct camera;

struct camera_setup {
  uv_loop_t *loop;
  struct cameras *cameras;
  const struct config_pipeline *config; /* stays until camera_close() */
  const char *pixels;                   /* of the pipeline's format, as framed-camera calls them */
  /* A process was started: `fd` is the producer's connection, and is the receiver's. */
  void (*connected)(void *context, int fd, pid_t pid);
  /* Whether that connection is still there. A process that has none is of no use, and another one takes its place. */
  bool (*is_connected)(void *context);
  void *context;
};

/* A process that outlives the daemon's image over exec. */
struct camera_process {
  pid_t pid;   /* 0: none */
  int control; /* the control socket; -1 */
};

/* [any thread] Whether a camera could be started: the program is there, and its credentials can be read. */
bool camera_check(const struct config_source *source, struct failure *failure);

/* Starts a process as soon as its turn comes, or keeps the process that the image before exec had. The pipeline then has its
 * connection already. NULL: no memory. */
struct camera *camera_new(const struct camera_setup *setup, const struct camera_process *left);
/* Ends the process: closes its control socket, and kills it if it has not ended after 2 s. The record frees itself. NULL is
 * fine; returns NULL. */
struct camera *camera_close(struct camera *camera);

/* Moves the camera to another pipeline, if its start message would be the same: not even a connection to the camera ends. The
 * process gets another connection for frames; *frames is the daemon's end, or -1 without a process. False: it does not fit, and
 * nothing has changed. */
bool camera_move(struct camera *camera, const struct camera_setup *setup, int *frames);

const struct camera_view *camera_view(const struct camera *camera);
/* Why no picture comes, or not all of them: until all is well. */
const struct trouble *camera_trouble(const struct camera *camera);
/* The process, for the next image of the daemon. This image keeps it, too, should exec fail. */
struct camera_process camera_process(const struct camera *camera);

#endif
