/* Has framed-camera look at a camera: its answer, and the first picture. */
#ifndef FRAMED_TOOLS_FRAMECTL_CAMERA_RUN_H
#define FRAMED_TOOLS_FRAMECTL_CAMERA_RUN_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/framectl/common/problem.h"
#include "tools/framectl/picture.h"

/*
 * Connects to `url` with `credentials`, "USER:PASSWORD" or NULL. Returns the report, to be released by json_decref(), and fills
 * `picture`, whose pixels the caller frees. On failure returns NULL; the problem says why there is no picture.
 */
json_t *camera_look(const char *url, const char *credentials, struct picture *picture, struct problem *problem);

#endif
