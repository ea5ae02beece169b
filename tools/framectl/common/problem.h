/* An error as a value: the exit status, the failure and its remedy. Only main prints it. */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_PROBLEM_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_PROBLEM_H

#include <stdbool.h>

enum exit_status {
  EXIT_STATUS_OK = 0,
  EXIT_STATUS_REFUSED = 1,  /* the daemon refused */
  EXIT_STATUS_FINDINGS = 2, /* health: something is degraded; doctor: something could be better */
  EXIT_STATUS_USAGE = 64,
  EXIT_STATUS_NO_DAEMON = 69,
  EXIT_STATUS_INTERNAL = 70
};

/* Names the daemon's log, also for a daemon that is not a service. */
#define PROBLEM_LOG "the daemon's log (in its terminal, or journalctl -u framed)"

struct problem { /* zero before use; problem_clear() after */
  enum exit_status status;
  char *text;   /* may have several lines */
  char *remedy; /* NULL: none */
  bool is_said; /* the command's own output reports it, so main only sets the exit status */
};

/* Replaces the problem and returns false, so that a function can end with `return problem_set(...)`. */
__attribute__((format(printf, 4, 5))) bool problem_set(struct problem *problem, enum exit_status status, const char *remedy,
                                                       const char *format, ...);
/* For a `push` whose standard input was empty. */
bool problem_set_nothing_sent(struct problem *problem);
/* For an option that getopt_long() rejected. `answer` is its return value, ':' or '?'. */
bool problem_set_option(struct problem *problem, int answer, char **arguments, const char *remedy);
/* Flushes standard output, and returns true if everything was written. Each program ends with this call. */
bool problem_set_unless_printed(struct problem *problem);
void problem_clear(struct problem *problem);

#endif
