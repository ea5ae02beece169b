/* The clients of a pipeline as a table. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_CLIENTS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_CLIENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Prints the clients in the pipeline's part of /v1/status. False if memory or the output fails. */
bool clients_print(FILE *out, const json_t *pipeline, bool colour);

#endif
