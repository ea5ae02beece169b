/* What `framectl status PIPELINE` prints, for others who show it. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_STATUS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_STATUS_H

#include <jansson.h>
#include <stdio.h>

#include "tools/framectl/common/problem.h"

/* The pipeline's ends, clients, ledger and steps; false with a problem if there is none of that name. */
bool status_print_one(FILE *out, json_t *document, const char *name, bool colour, struct problem *problem);

#endif
