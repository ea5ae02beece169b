/* framectl sends requests and commands to a running framed over its status socket. Only this file reads the command line. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/suggest.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/table.h"

struct command_line {
  struct invocation invocation;
  const struct command *command;
  unsigned options; /* a bit for each of enum option_id that was used */
  bool wants_help, wants_version;
};

/* -- reading the command line ------------------------------------------------------------------------------------- */

static bool find_command(const char *name, const struct command **found, struct problem *problem) {
  struct suggestion suggestion = suggest_begin(name);
  for (const struct command *command = commands; command->name; command++) {
    if (strcmp(name, command->name) == 0) {
      *found = command;
      return true;
    }
    suggest_offer(&suggestion, command->name);
  }
  char remedy[SUGGEST_TEXT];
  return problem_set(problem, EXIT_STATUS_USAGE, suggest_text(&suggestion, "`framectl --help` lists the commands", remedy),
                     "there is no command '%s'", name);
}

static bool parse_frames(const char *text, uint64_t *frames, struct problem *problem) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (text[strspn(text, "0123456789")] != '\0' || end == text || errno != 0 || value == 0 || value > UINT32_MAX) {
    return problem_set(problem, EXIT_STATUS_USAGE, "give a whole number from 1", "--frames does not take '%s'", text);
  }
  *frames = value;
  return true;
}

static bool parse_seconds(const char *text, double *seconds, struct problem *problem) {
  char *end;
  *seconds = strtod(text, &end);
  if (text[strspn(text, "0123456789.")] != '\0' || end == text || *end != '\0' || *seconds < 0.1 || *seconds > 60) {
    return problem_set(problem, EXIT_STATUS_USAGE, "give a number from 0.1 to 60", "--seconds does not take '%s'", text);
  }
  return true;
}

enum { OPTION_VALUES = 256 }; /* getopt's return values for enum option_id begin here */

static bool take_command_option(enum option_id option, struct command_line *line, struct problem *problem) {
  line->options |= TAKES(option);
  switch (option) {
  case OPTION_JSON:
    line->invocation.json = true;
    return true;
  case OPTION_SHM:
    line->invocation.shared = true;
    return true;
  case OPTION_CUDA:
    line->invocation.cuda = true;
    return true;
  case OPTION_FORCE:
    line->invocation.force = true;
    return true;
  case OPTION_FRAMES:
    return parse_frames(optarg, &line->invocation.frames, problem);
  case OPTION_OUTPUT:
    line->invocation.output = optarg;
    return true;
  case OPTION_INPUT:
    line->invocation.input = optarg;
    return true;
  case OPTION_FORMAT:
    line->invocation.format = optarg;
    return true;
  case OPTION_CPU:
    line->invocation.cpu = true;
    return true;
  case OPTION_CONFIG:
    line->invocation.config = optarg;
    return true;
  case OPTION_AGAINST:
    line->invocation.against = optarg;
    return true;
  case OPTION_CREDENTIALS:
    line->invocation.credentials = optarg;
    return true;
  case OPTION_TERMINAL:
    line->invocation.terminal = true;
    return true;
  case OPTION_SECONDS:
    return parse_seconds(optarg, &line->invocation.seconds, problem);
  default:
    line->invocation.plan[option - OPTION_PLAN] = optarg;
    return true;
  }
}

static bool take_option(int option, struct command_line *line, char **arguments, struct problem *problem) {
  switch (option) {
  case 's':
    line->invocation.socket = optarg;
    return true;
  case 'o':
    return take_command_option(OPTION_OUTPUT, line, problem);
  case 'i':
    return take_command_option(OPTION_INPUT, line, problem);
  case 'h':
    line->wants_help = true;
    return true;
  case 'V':
    line->wants_version = true;
    return true;
  case ':':
  case '?':
    return problem_set_option(problem, option, arguments, "see `framectl --help`");
  default:
    return take_command_option((enum option_id)(option - OPTION_VALUES), line, problem);
  }
}

static bool read_options(int count, char **arguments, struct command_line *line, struct problem *problem) {
  struct option options[OPTION_COUNT + 4] = {
      {"socket", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}};
  for (int option = 0; option < OPTION_COUNT; option++) {
    int argument = option_table[option].value ? required_argument : no_argument;
    options[option + 3] = (struct option){option_table[option].name, argument, NULL, OPTION_VALUES + option};
  }
  opterr = 0;
  int option;
  while ((option = getopt_long(count, arguments, ":s:o:i:h", options, NULL)) != -1) {
    if (!take_option(option, line, arguments, problem)) {
      return false;
    }
  }
  return true;
}

static bool check_options(const struct command_line *line, struct problem *problem) {
  unsigned foreign = line->options & ~line->command->options;
  for (int option = 0; option < OPTION_COUNT; option++) {
    if (foreign & TAKES(option)) {
      return problem_set(problem, EXIT_STATUS_USAGE, NULL, "'%s' does not take --%s", line->command->name,
                         option_table[option].name);
    }
  }
  return true;
}

static bool read_operands(int count, char **operands, struct command_line *line, struct problem *problem) {
  const struct command *command = line->command;
  if (!check_options(line, problem)) {
    return false;
  }
  bool several = command->operand && strstr(command->operand, "...");
  if (count > (command->operand ? 1 : 0) && !several) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "'%s' takes nothing more: %s", command->name, operands[count - 1]);
  }
  if (count == 0 && command->operand && strcmp(command->operand, "STAGE...") == 0) {
    return problem_set(problem, EXIT_STATUS_USAGE, "`framectl stages` lists them; write for example 'blur: {sigma: 3}'",
                       "'%s' needs a stage", command->name);
  }
  if (count == 0 && command->operand && command->operand[0] != '[' && strcmp(command->operand, "PIPELINE") != 0) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "'%s' needs %s", command->name, command->operand);
  }
  if (count == 0 && command->operand && command->operand[0] != '[') {
    return problem_set(problem, EXIT_STATUS_USAGE, "`framectl status` lists the pipelines", "'%s' needs the name of a pipeline",
                       command->name);
  }
  line->invocation.operands = (const char *const *)operands;
  line->invocation.operand_count = (unsigned)count;
  line->invocation.operand = count > 0 ? operands[0] : NULL;
  return true;
}

static bool is_help(int count, char **arguments) { return optind < count && strcmp(arguments[optind], "help") == 0; }

/* `help help` means `help`. */
static bool read_help(int count, char **arguments, struct command_line *line, struct problem *problem) {
  line->wants_help = true;
  optind++;
  if (count - optind > 1) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "'help' takes nothing more: %s", arguments[count - 1]);
  }
  optind += is_help(count, arguments);
  return true;
}

static bool read_command_line(int count, char **arguments, struct command_line *line, struct problem *problem) {
  if (!read_options(count, arguments, line, problem)) {
    return false;
  }
  if (is_help(count, arguments) && !read_help(count, arguments, line, problem)) {
    return false;
  }
  if (optind < count && !find_command(arguments[optind], &line->command, problem)) {
    return false;
  }
  if (line->wants_help || line->wants_version) {
    return true;
  }
  if (!line->command) {
    return problem_set(problem, EXIT_STATUS_USAGE, "`framectl --help` lists the commands", "no command given");
  }
  return read_operands(count - optind - 1, arguments + optind + 1, line, problem);
}

/* -- running -------------------------------------------------------------------------------------------------------- */

static const char *default_socket(void) {
  const char *socket = getenv("FRAMED_SOCKET");
  return socket && *socket ? socket : DEFAULT_SOCKET;
}

static bool shows_colours(void) {
  const char *unwanted = getenv("NO_COLOR"), *terminal = getenv("TERM");
  return isatty(STDOUT_FILENO) && !(unwanted && *unwanted) && terminal && strcmp(terminal, "dumb") != 0;
}

/* JSON is UTF-8, and a command line may hold any bytes. In a text that is not UTF-8, bytes above 127 become '?'. */
static json_t *json_of(const char *text) {
  json_t *string = json_string(text);
  char *copy = string ? NULL : strdup(text);
  for (char *at = copy; at && *at; at++) {
    *at = (*at & 0x80) != 0 ? '?' : *at;
  }
  string = copy ? json_string(copy) : string;
  free(copy);
  return string;
}

static void print_problem(const struct problem *problem, bool json) {
  const char *text = problem->text ? problem->text : "no memory";
  if (!json || ferror(stdout)) {
    char *safe = text_safe(text, true); /* it may contain names of the command line */
    fprintf(stderr, "framectl: %s\n", safe ? safe : "no memory");
    free(safe);
    if (problem->remedy) {
      fprintf(stderr, "  %s\n", problem->remedy);
    }
    return;
  }
  json_t *document = json_pack("{s:o, s:o}", "error", json_of(text), "remedy", json_of(problem->remedy ? problem->remedy : ""));
  json_dumpf(document, stdout, TEXT_JSON);
  putchar('\n');
  json_decref(document);
}

static bool run(struct command_line *line, struct problem *problem) {
  if (line->wants_version) {
    printf("framectl %s\n", FRAMED_VERSION);
  } else if (!line->command) { /* --help without a command */
    table_print_help();
  } else if (line->wants_help) {
    table_print_command_help(line->command);
  } else if (!line->command->run(&line->invocation, problem) && !problem->is_said) {
    return false;
  }
  return problem_set_unless_printed(problem) && !problem->is_said;
}

int main(int count, char **arguments) {
  struct command_line line = {.invocation = {.socket = default_socket(), .colour = shows_colours()}};
  struct problem problem = {0};
  signal(SIGPIPE, SIG_IGN);
  if (read_command_line(count, arguments, &line, &problem) && run(&line, &problem)) {
    return EXIT_STATUS_OK;
  }
  if (!problem.is_said) {
    print_problem(&problem, line.invocation.json);
  }
  int status = (int)problem.status;
  problem_clear(&problem);
  return status;
}
