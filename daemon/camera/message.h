/* The one message that framed-camera gets: what to fetch, and in which form the pipeline takes it. It has the password in it.
 */
#ifndef FRAMED_CAMERA_MESSAGE_H
#define FRAMED_CAMERA_MESSAGE_H

#include "config/config.h"
#include "daemon/base/failure.h"

/* Reads the credentials and sends the message to a control socket, whose other end nobody has to read yet. */
bool message_send(int control, const struct config_pipeline *pipeline, const char *pixels, struct failure *failure);

#endif
