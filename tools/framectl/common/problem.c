#include "tools/framectl/common/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool problem_set(struct problem *problem, enum exit_status status, const char *remedy, const char *format, ...) {
  char *text = NULL, *advice = remedy && *remedy ? strdup(remedy) : NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) {
    text = NULL;
  }
  va_end(arguments);
  problem_clear(problem); /* last, since the arguments may point into the old problem */
  *problem = (struct problem){.status = status, .text = text, .remedy = advice};
  return false;
}

bool problem_set_nothing_sent(struct problem *problem) {
  return problem_set(problem, EXIT_STATUS_USAGE, "give it frames by '<' or a pipe; what is before the pipe may have failed",
                     "nothing was sent: standard input had no frame");
}

/* Whether one of the short options of this argument is the letter. */
static bool has_letter(const char *argument, int letter) {
  return argument && argument[0] == '-' && argument[1] != '-' && strchr(argument + 1, letter);
}

/* getopt has moved past the argument, unless other short options follow in the same one. */
bool problem_set_option(struct problem *problem, int answer, char **arguments, const char *remedy) {
  const char *last = arguments[optind - 1];
  if (answer == ':') {
    return problem_set(problem, EXIT_STATUS_USAGE, remedy, "%s needs a value", last);
  }
  if (optopt > 0 && (has_letter(last, optopt) || has_letter(arguments[optind], optopt))) {
    return problem_set(problem, EXIT_STATUS_USAGE, remedy, "there is no option -%c", optopt);
  }
  return problem_set(problem, EXIT_STATUS_USAGE, remedy, "there is no option %s", last);
}

bool problem_set_unless_printed(struct problem *problem) {
  bool left = fflush(stdout) == 0;
  const char *why = left ? "not all bytes were written" : strerror(errno);
  return (left && !ferror(stdout)) ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write to standard output: %s", why);
}

void problem_clear(struct problem *problem) {
  free(problem->text);
  free(problem->remedy);
  *problem = (struct problem){0};
}
