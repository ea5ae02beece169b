/* A camera's whole life: connect, decode, hand on, and after each failure a pause and once more. */
#ifndef FRAMED_TOOLS_CAMERA_CAMERA_H
#define FRAMED_TOOLS_CAMERA_CAMERA_H

#include "tools/camera/settings.h"

/* The daemon's descriptors in this process. */
enum { CAMERA_CONTROL = 3, CAMERA_FRAMES = 4 };

/* Returns when the daemon has closed the control socket, or ended the connection for frames: the exit status. */
int camera_run(const struct settings *settings);

/* Says on the control socket why there will be no frames. */
void camera_refuse(const struct reason *reason);

/* Ends this process if it makes no step for a minute: a decoder or a name server that holds it cannot be interrupted. */
void camera_alive(void);

/* `framed-camera --try`: the settings come from standard input; a line of JSON, and a picture behind it, go to standard output.
 */
int try_run(void);

#endif
