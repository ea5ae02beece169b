/* Who is connected to a pipeline, as a table for people. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_CLIENTS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_CLIENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The clients in the pipeline's document of /v1/status; false if there is no memory, or it cannot be written. */
bool clients_print(FILE *out, const json_t *pipeline, bool colour);

#endif
