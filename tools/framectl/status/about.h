/* What the daemon tells of itself and its devices, in some lines before those of the pipelines. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_ABOUT_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_ABOUT_H

#include <jansson.h>
#include <stdbool.h>

/* `document` is what /v1/status gives. */
void about_print(json_t *document, bool colour);

#endif
