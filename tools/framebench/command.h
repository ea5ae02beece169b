/* The interface of subcommands. Each returns false with a problem; only main prints problems. */
#ifndef FRAMED_TOOLS_FRAMEBENCH_COMMAND_H
#define FRAMED_TOOLS_FRAMEBENCH_COMMAND_H

#include "tools/framectl/common/problem.h"

/* `arguments[0]` is the subcommand's name, as getopt expects it; the subcommand's own arguments follow. */
typedef bool command_run(int count, char **arguments, struct problem *problem);

command_run command_limits, command_daemon, command_transport, command_scale, command_load, command_overlap, command_stages,
    command_model, command_report;

#endif
