/* The lines on the daemon and its devices, which `framectl status` prints before those of the pipelines. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_ABOUT_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_ABOUT_H

#include <jansson.h>
#include <stdbool.h>

/* `document` is /v1/status. */
void about_print(json_t *document, bool colour);

#endif
