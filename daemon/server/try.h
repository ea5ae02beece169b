/* One frame through the stages of a configuration, without a daemon: what `framectl try` runs. */
#ifndef FRAMED_SERVER_TRY_H
#define FRAMED_SERVER_TRY_H

#include "daemon/base/failure.h"

/* Reads a frame of the only pipeline in `text` from standard input, and writes a line with the result's format and then the
 * result to standard output. Errors go to standard error. */
enum exit_status try_run(const char *text);

/* Prints the stages of this build with a sentence each, or the parameters of the one called `name`.
 */
enum exit_status try_print_stages(const char *name);

#endif
