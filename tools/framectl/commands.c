/* The short commands: each sends the daemon one request. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/text.h"

bool command_metrics(const struct invocation *invocation, struct problem *problem) {
  char *text = daemon_text(invocation->socket, "/metrics", DAEMON_PATIENCE_MS, problem);
  if (!text) {
    return false;
  }
  fputs(text, stdout);
  free(text);
  return true;
}

/* Prints `done` after the pipeline's name, or `same` if the answer says that nothing changed. `print_more` may be NULL. */
static bool send_command(const struct invocation *invocation, const char *command, const char *done, const char *same,
                         void (*print_more)(const json_t *answer), struct problem *problem) {
  json_t *answer = daemon_command(invocation->socket, invocation->operand, command, -1, problem);
  if (!answer) {
    return false;
  }
  if (invocation->json) {
    json_dumpf(answer, stdout, TEXT_JSON);
    putchar('\n');
  } else {
    const char *text = json_is_true(json_object_get(answer, "same")) ? same : done;
    printf("%s%s%s\n", invocation->operand ? invocation->operand : "", invocation->operand ? " " : "", text);
    if (print_more) {
      print_more(answer);
    }
  }
  json_decref(answer);
  return true;
}

static void print_names(const char *what, const json_t *names) {
  size_t i;
  const json_t *name;
  json_array_foreach(names, i, name) { printf("%s%s", i == 0 ? what : ", ", json_string_value(name)); }
  if (json_array_size(names) > 0) {
    putchar('\n');
  }
}

static void print_reload(const json_t *answer) {
  print_names("  added: ", json_object_get(answer, "added"));
  print_names("  removed, clients disconnected: ", json_object_get(answer, "removed"));
  print_names("  changed and restarted, clients disconnected: ", json_object_get(answer, "changed"));
  const char *name;
  const json_t *reason;
  json_object_foreach((json_t *)(uintptr_t)json_object_get(answer, "waiting"), name, reason) {
    printf("  %s cannot start yet, and is retried: %s\n", name, json_string_value(reason));
  }
}

bool command_reload(const struct invocation *invocation, struct problem *problem) {
  return send_command(invocation, "reload", "the new configuration is in force", "the configuration has not changed",
                      print_reload, problem);
}

bool command_drain(const struct invocation *invocation, struct problem *problem) {
  return send_command(invocation, "drain", "is drained: nothing is in flight; `framectl resume` ends it", "", NULL, problem);
}

bool command_pause(const struct invocation *invocation, struct problem *problem) {
  return send_command(invocation, "pause", "is paused; `framectl resume` ends it", "", NULL, problem);
}

bool command_resume(const struct invocation *invocation, struct problem *problem) {
  return send_command(invocation, "resume", "takes frames again", "", NULL, problem);
}

bool command_record(const struct invocation *invocation, struct problem *problem) {
  return send_command(invocation, "record", "is recording the frames before and after this moment", "", NULL, problem);
}

static bool has_framed(const char *folder, size_t length, char path[PATH_MAX]) {
  int needed = snprintf(path, PATH_MAX, "%.*s/framed", (int)length, folder);
  return length > 0 && needed < PATH_MAX && access(path, X_OK) == 0;
}

/* Searches PATH itself: execvp() runs a file that is not a program with a shell. */
const char *command_find_framed(char path[PATH_MAX]) {
  char own[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  own[length > 0 ? length : 0] = '\0';
  const char *folder = length > 0 ? dirname(own) : "";
  bool found = has_framed(folder, strlen(folder), path);
  for (folder = getenv("PATH"); folder && !found;) {
    size_t end = strcspn(folder, ":");
    found = has_framed(folder, end, path);
    folder = folder[end] == ':' ? folder + end + 1 : NULL;
  }
  path[0] = found ? path[0] : '\0'; /* an empty path cannot be run, which the caller reports */
  return path;
}

/* `arguments` are those after the program's name, and end with NULL. */
static bool become_framed(const char *const *arguments, struct problem *problem) {
  enum { MOST = 8 };
  char path[PATH_MAX];
  const char *all[MOST] = {command_find_framed(path)};
  for (unsigned i = 0; arguments[i] && i + 2 < MOST; i++) {
    all[i + 1] = arguments[i];
  }
  fflush(stdout);
  execv(all[0], (char *const *)all);
  return problem_set(problem, EXIT_STATUS_INTERNAL, "install framed, or put it beside framectl or into PATH",
                     "cannot run framed: %s", strerror(errno));
}

bool command_replay(const struct invocation *invocation, struct problem *problem) {
  const char *arguments[] = {"--replay", invocation->operand, "--against", invocation->against, "-c", invocation->config, NULL};
  if (!invocation->against) {
    return problem_set(problem, EXIT_STATUS_USAGE, "write --against NEW.yaml",
                       "'replay' needs a configuration to compare with");
  }
  arguments[4] = invocation->config ? arguments[4] : NULL;
  return become_framed(arguments, problem);
}

bool command_check(const struct invocation *invocation, struct problem *problem) {
  const char *const arguments[] = {"--check", invocation->operand ? "-c" : NULL, invocation->operand, NULL};
  return become_framed(arguments, problem);
}

bool command_stages(const struct invocation *invocation, struct problem *problem) {
  char option[256];
  snprintf(option, sizeof option, "--print-stages%s%s", invocation->operand ? "=" : "",
           invocation->operand ? invocation->operand : "");
  return become_framed((const char *const[]){option, NULL}, problem);
}
