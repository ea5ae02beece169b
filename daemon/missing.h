/*
 * What a configuration names that is not there yet: directories of sockets and result files, files to read, and GPUs that could
 * be used. The start fails without them, but what starts the daemon may make them until then, so their absence makes no
 * configuration invalid.
 */
#ifndef FRAMED_DAEMON_MISSING_H
#define FRAMED_DAEMON_MISSING_H

#include <stdio.h>

#include "config/config.h"

/* Two lines for each: place, path, and what to do. */
void missing_print(FILE *out, const struct config *config);

#endif
