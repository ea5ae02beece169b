/*
 * The files that a configuration names, as they are on the disk, which the configuration alone does not show.
 *
 * Directories of sockets and result files, files to read, and GPUs that could be used, may be missing: the start fails without
 * them, but what starts the daemon may make them until then, so that their absence makes no configuration invalid.
 *
 * One file may have several names, by links or the shell's redirections: results of two pipelines would overwrite each other
 * there, a pipeline that reads its own results never ends, and what comes through a pipe reaches each of its readers in part.
 */
#ifndef FRAMED_SERVER_CONFIG_FILES_H
#define FRAMED_SERVER_CONFIG_FILES_H

#include <stdio.h>

#include "config/config.h"
#include "daemon/base/failure.h"

/* Prints two lines for each that is missing: place, path, and what to do. */
void config_files_print_missing(FILE *out, const struct config *config);
/* Whether all pipelines of a configuration use files of their own where they must. Of files that do not exist nothing is known:
 * ask once they are open. Looks at the disk: set-up thread. */
bool config_files_distinct(const struct config *config, struct failure *failure);

#endif
