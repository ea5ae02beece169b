/*
 * Files that are one file under several names, by links or the shell's redirections, which the configuration alone does not
 * show: results of two pipelines would overwrite each other there, a pipeline that reads its own results never ends, and what
 * comes through a pipe reaches each of its readers in part.
 */
#ifndef FRAMED_SERVER_DISTINCT_H
#define FRAMED_SERVER_DISTINCT_H

#include "config/config.h"
#include "daemon/base/failure.h"

/* Whether all pipelines of a configuration use files of their own where they must. Of those that do not exist nothing is known:
 * ask once they are open. Looks at the disk: set-up thread. */
bool config_files_distinct(const struct config *config, struct failure *failure);

#endif
