/* The one message to framed-camera: the URL, the password, and the format of the pipeline. */
#ifndef FRAMED_CAMERA_MESSAGE_H
#define FRAMED_CAMERA_MESSAGE_H

#include "config/config.h"
#include "daemon/base/failure.h"

/* Reads the credentials and sends the message to a control socket, whose other end nobody has to read yet. */
bool message_send(int control, const struct config_pipeline *pipeline, const char *pixels, struct failure *failure);

#endif
