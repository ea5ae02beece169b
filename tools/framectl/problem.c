#include "tools/framectl/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool problem_set(struct problem *problem, enum exit_status status, const char *remedy, const char *format, ...) {
  char *text = NULL, *advice = remedy && *remedy ? strdup(remedy) : NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) {
    text = NULL;
  }
  va_end(arguments);
  problem_clear(problem); /* only now: the arguments may be what it holds */
  *problem = (struct problem){.status = status, .text = text, .remedy = advice};
  return false;
}

bool problem_set_nothing_sent(struct problem *problem) {
  return problem_set(problem, EXIT_STATUS_USAGE, "give it frames by '<' or a pipe; what is before the pipe may have failed",
                     "nothing was sent: standard input had no frame");
}

void problem_clear(struct problem *problem) {
  free(problem->text);
  free(problem->remedy);
  *problem = (struct problem){0};
}
