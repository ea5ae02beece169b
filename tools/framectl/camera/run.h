/* Has framed-camera look at a camera: its answer, and the first picture. */
#ifndef FRAMED_TOOLS_FRAMECTL_CAMERA_RUN_H
#define FRAMED_TOOLS_FRAMECTL_CAMERA_RUN_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/framectl/common/problem.h"
#include "tools/framectl/picture.h"

/*
 * `credentials` is "USER:PASSWORD" or NULL. Gives what the camera sends, to be released by json_decref(), and the picture,
 * whose pixels are to be freed. NULL with a problem, which says why the camera gives no picture.
 */
json_t *camera_look(const char *url, const char *credentials, struct picture *picture, struct problem *problem);

#endif
