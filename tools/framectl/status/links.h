/* What links of a pipeline to a broker tell of themselves, a line each. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_LINKS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_LINKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* All of them, or those without a broker; `pipeline` is its part of /v1/status. */
void links_print(FILE *out, const char *before, const json_t *pipeline, bool all, bool colour);

#endif
