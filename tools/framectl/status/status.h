/* The output of `framectl status PIPELINE`, which `framectl top` shows too. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_STATUS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_STATUS_H

#include <jansson.h>
#include <stdio.h>

#include "tools/framectl/common/problem.h"

/* The pipeline's ends, clients, ledger and steps. False with a problem if there is no such pipeline. */
bool status_print_one(FILE *out, json_t *document, const char *name, bool colour, struct problem *problem);

#endif
