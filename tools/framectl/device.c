/*
 * `framectl device NUMBER drain|resume`: frees a device for other work, or brings it back, and polls the daemon until that is
 * done. The daemon answers the request before the new process image starts, and only that image uses other devices.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"

enum { LIMIT_S = 30, PAUSE_MS = 20 };

enum outcome { WAITING, DONE, REFUSED };

/* A device that is being brought back is not in the list until it is open. */
static enum outcome judge(const json_t *device, bool drains, struct problem *problem) {
  const char *state = json_string_value(json_object_get(device, "state"));
  const char *text = json_string_value(json_object_get(device, "text"));
  if (!state || strcmp(state, "draining") == 0) {
    return WAITING;
  }
  if (strcmp(state, drains ? "drained" : "open") == 0) {
    return DONE;
  }
  problem_set(problem, EXIT_STATUS_REFUSED, "`journalctl -u framed -x` says more", "it is %s%s%s", state, text ? ": " : "",
              text ? text : "");
  return REFUSED;
}

/* While one process image replaces the other, requests fail; they are tried again. */
static bool wait_for_device(const struct invocation *invocation, bool drains, struct problem *problem) {
  enum outcome outcome = WAITING;
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    json_t *document = daemon_status(invocation->socket, LIMIT_S * 1000, problem);
    if (document) {
      problem_set(problem, EXIT_STATUS_REFUSED, "`journalctl -u framed -x` says more", "it was not done within %d s", LIMIT_S);
      outcome = judge(json_object_get(json_object_get(document, "devices"), invocation->operand), drains, problem);
      json_decref(document);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (outcome == WAITING && now.tv_sec - begin.tv_sec < LIMIT_S);
  return outcome == DONE;
}

static bool read_arguments(const struct invocation *invocation, bool *drains, struct problem *problem) {
  const char *number = invocation->operand, *action = invocation->operand_count == 2 ? invocation->operands[1] : "";
  *drains = strcmp(action, "drain") == 0;
  bool known = *drains || strcmp(action, "resume") == 0;
  bool is_number = strlen(number) <= 2 && number[strspn(number, "0123456789")] == '\0';
  return (known && is_number) || problem_set(problem, EXIT_STATUS_USAGE, "write for example: framectl device 1 drain",
                                             "'device' needs a number, and drain or resume");
}

bool command_device(const struct invocation *invocation, struct problem *problem) {
  bool drains;
  char command[32];
  if (!read_arguments(invocation, &drains, problem)) {
    return false;
  }
  snprintf(command, sizeof command, "devices/%s/%s", invocation->operand, drains ? "drain" : "resume");
  json_t *answer = daemon_command(invocation->socket, NULL, command, -1, problem);
  bool done = answer && wait_for_device(invocation, drains, problem);
  json_decref(answer);
  if (done) {
    problem_clear(problem);
    printf(invocation->json ? "{\"ok\": true, \"device\": %s, \"state\": \"%s\"}\n" : "device %s is %s\n", invocation->operand,
           drains ? "drained" : "open");
  }
  return done;
}
