/* What the subcommands are given and how they answer. Each gives false with a problem; only main prints it. */
#ifndef FRAMED_TOOLS_FRAMEBENCH_COMMAND_H
#define FRAMED_TOOLS_FRAMEBENCH_COMMAND_H

#include "tools/framectl/common/problem.h"

/* `arguments[0]` is the subcommand's name, as getopt wants it; what follows is the subcommand's own. */
typedef bool command_run(int count, char **arguments, struct problem *problem);

command_run command_limits, command_daemon, command_transport, command_scale, command_load, command_overlap, command_stages,
    command_model, command_report;

#endif
