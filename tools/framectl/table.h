/* Tables of framectl's commands and options. The help is printed from these tables. */
#ifndef FRAMED_TOOLS_FRAMECTL_TABLE_H
#define FRAMED_TOOLS_FRAMECTL_TABLE_H

#include "tools/framectl/command.h"

#define DEFAULT_SOCKET "/run/framed/status.sock"

/* Options of single commands. Those of `plan` follow in the order of enum plan_option. */
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
  OPTION_CREDENTIALS,
  OPTION_TERMINAL,
  OPTION_PLAN,
  OPTION_COUNT = OPTION_PLAN + PLAN_OPTIONS
};
#define TAKES(option) (1U << (option))

struct option_row {
  const char *name, *value; /* NULL: no value */
};

extern const struct option_row option_table[OPTION_COUNT];

struct command {
  const char *name, *operand; /* NULL: none; in brackets: optional; with dots: several */
  unsigned options;           /* a bit for each accepted enum option_id */
  const char *summary, *help;
  command_run *run;
};

extern const struct command commands[]; /* ends with an entry whose name is NULL */

void table_print_help(void);
void table_print_command_help(const struct command *command);

#endif
