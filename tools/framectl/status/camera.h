/* Prints the daemon's view of the camera of a source that is a URL. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_CAMERA_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_CAMERA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* A line about the pipeline's camera: always, or (`troubles`) if something is wrong. Nothing if it has none. */
void camera_print(FILE *out, const char *before, const json_t *pipeline, bool troubles, bool colour);

#endif
