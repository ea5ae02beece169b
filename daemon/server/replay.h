/* The frames of a recording through two configurations, without a daemon: what `framectl replay` runs. */
#ifndef FRAMED_SERVER_REPLAY_H
#define FRAMED_SERVER_REPLAY_H

#include "daemon/base/failure.h"

enum { REPLAY_DIFFERS = 2 }; /* the exit status where some results do */

/* Prints for each frame of the recording whose result is another one what is, and then how many there were. The pipeline is the
 * one that was recorded, of that name in both files. Errors and progress go to standard error. */
int replay_run(const char *recording, const char *before, const char *after);

#endif
