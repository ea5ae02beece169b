/* The commands and options of framectl as tables, and the help that is printed of them. */
#ifndef FRAMED_TOOLS_FRAMECTL_TABLE_H
#define FRAMED_TOOLS_FRAMECTL_TABLE_H

#include "tools/framectl/command.h"

#define DEFAULT_SOCKET "/run/framed/status.sock"

/* Options that not every command takes; those of `plan` follow in the order of enum plan_option. */
enum option_id {
  OPTION_JSON,
  OPTION_CUDA,
  OPTION_FORCE,
  OPTION_SHM,
  OPTION_FRAMES,
  OPTION_OUTPUT,
  OPTION_SECONDS,
  OPTION_INPUT,
  OPTION_FORMAT,
  OPTION_CPU,
  OPTION_CONFIG,
  OPTION_AGAINST,
  OPTION_PLAN,
  OPTION_COUNT = OPTION_PLAN + PLAN_OPTIONS
};
#define TAKES(option) (1U << (option))

struct option_row {
  const char *name, *value; /* NULL: takes none */
};

extern const struct option_row option_table[OPTION_COUNT];

struct command {
  const char *name, *operand; /* NULL: takes none; in brackets: may be left out; with dots: may be several */
  unsigned options;           /* a bit for each of enum option_id */
  const char *summary, *help;
  command_run *run;
};

extern const struct command commands[]; /* ends with one without a name */

void table_print_help(void);
void table_print_command_help(const struct command *command);

#endif
