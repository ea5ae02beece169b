/*
 * What a configuration names that is not there yet: directories of sockets and result files, files to read, and GPUs that could
 * be used. The start fails without them, but what starts the daemon may make them until then, so their absence makes no
 * configuration invalid.
 */
#ifndef FRAMED_SERVER_CONFIG_FILES_H
#define FRAMED_SERVER_CONFIG_FILES_H

#include <stdio.h>

#include "config/config.h"

/* Two lines for each: place, path, and what to do. */
void config_files_print_missing(FILE *out, const struct config *config);

#endif
