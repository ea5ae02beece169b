/*
 * An upgrade: the program that is installed now takes over from the one that runs. The installed program is first asked, in a
 * child, whether it takes the running configuration and states of this version, and has to answer with that version. Only then
 * is it executed in place; a program that cannot go on changes nothing.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/child.h"
#include "daemon/base/log.h"
#include "daemon/server/private.h"
#include "daemon/state/exec.h"
#include "daemon/state/state.h"
#include "daemon/status/tracer.h"

#define LATE "a pipeline has not started since the last reload"

enum { LIMIT_MS = 20000, ANSWER_MS = 50, SAID = 400, CONFIG_FD = 3 };
enum {
  ATTEMPTS = 5,
  AGAIN_MS = 200
}; /* where a request to a file is under way, for which all lanes would have to stand still */

struct upgrade {
  struct server *server;
  server_answer *answer;
  void *context;
  struct child *child;        /* NULL: none runs */
  int config, said, answered; /* files of the child: its configuration, its standard error and its standard output */
  struct loop_timer *timer;
  int attempts;
};

static void upgrade_end(struct upgrade *upgrade) {
  const int descriptors[] = {upgrade->config, upgrade->said, upgrade->answered};
  upgrade->server->upgrade = NULL;
  upgrade->timer = loop_timer_close(upgrade->timer);
  for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
    if (descriptors[i] >= 0) {
      close(descriptors[i]);
    }
  }
  free(upgrade);
}

static void say_refusal(struct server *server, const char *why) {
  log_event(LOG_UPGRADE_REFUSED, NULL, "no upgrade, the running program goes on: %s", why);
  snprintf(server->refusal, sizeof server->refusal, "%s", why);
}

static void upgrade_refuse(struct upgrade *upgrade, const char *why) {
  say_refusal(upgrade->server, why);
  if (upgrade->answer) {
    answer_error(upgrade->answer, upgrade->context, 409, "install a program that can take over, or restart the service", "%s",
                 why);
  }
  upgrade_end(upgrade);
}

/* -- taking over ----------------------------------------------------------------------------------------------------- */

/* A pipeline that a reload could not start yet would begin anew, without the readers that it may have. */
static bool is_one_late(const struct server *server) {
  bool late = false;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    late = late || pipeline_state(server->pipelines[i]) == PIPELINE_STARTING;
  }
  return late;
}

static void execute_later(struct upgrade *upgrade, uint64_t milliseconds);

static void upgrade_execute(void *context) {
  struct upgrade *upgrade = context;
  struct failure failure;
  char text[HISTORY_TEXT];
  if (is_one_late(upgrade->server)) {
    upgrade_refuse(upgrade, LATE);
    return;
  }
  /* With a worker, which is to stay. */
  const bool is_busy = upgrade->server->attending || recoveries_are_at_work(upgrade->server);
  if (is_busy && ++upgrade->attempts < ATTEMPTS) {
    execute_later(upgrade, AGAIN_MS);
    return;
  }
  snprintf(text, sizeof text, "%s took over", exec_program());
  if (server_has_files(upgrade->server, &failure)) {
    server_hand_over(upgrade->server, HISTORY_UPGRADE, text, exec_program(), &failure);
  }
  if (failure.later && ++upgrade->attempts < ATTEMPTS) {
    execute_later(upgrade, AGAIN_MS);
  } else {
    upgrade_refuse(upgrade, failure.text);
  }
}

static void execute_later(struct upgrade *upgrade, uint64_t milliseconds) {
  upgrade->timer = loop_timer_close(upgrade->timer);
  upgrade->timer = loop_timer_new(&upgrade->server->loop, upgrade_execute, upgrade);
  if (upgrade->timer) {
    loop_timer_start(upgrade->timer, milliseconds, 0);
  } else {
    upgrade_execute(upgrade);
  }
}

/* The answer to whoever asked for the upgrade needs a moment to leave, and so does a trace. */
static void on_willing(struct upgrade *upgrade) {
  bool yielded = tracer_yield(upgrade->server->tracer);
  if (!upgrade->answer && !yielded) {
    upgrade_execute(upgrade);
    return;
  }
  if (upgrade->answer) {
    upgrade->answer(upgrade->context, 200, json_pack("{s:b, s:o}", "ok", 1, "program", answer_string(exec_program())));
  }
  upgrade->answer = NULL;
  execute_later(upgrade, ANSWER_MS);
}

/* -- asking it ------------------------------------------------------------------------------------------------------- */

/* A program that is no framed ends with 0 too. */
static bool names_state(const struct upgrade *upgrade) {
  char version[STATE_VERSION_TEXT], expected[sizeof EXEC_ANSWER + STATE_VERSION_TEXT], answer[sizeof expected] = "";
  int length = snprintf(expected, sizeof expected, EXEC_ANSWER "%s\n", state_version(version));
  return pread(upgrade->answered, answer, (size_t)length, 0) == length && memcmp(answer, expected, (size_t)length) == 0;
}

static void on_child_end(void *context, int status, int signal) {
  struct upgrade *upgrade = context;
  char said[SAID + 1], why[SAID + 128];
  ssize_t length = pread(upgrade->said, said, SAID, 0);
  said[length > 0 ? length : 0] = '\0';
  said[strcspn(said, "\n")] = '\0';
  upgrade->child = NULL;
  upgrade->server->asking = 0;
  if (status == 0 && names_state(upgrade)) {
    on_willing(upgrade);
    return;
  }
  if (status == 0) {
    snprintf(why, sizeof why, "'%s' does not take over: it did not answer as framed does", exec_program());
  } else {
    snprintf(why, sizeof why, "'%s' does not take over (%s %d)%s%s", exec_program(), signal != 0 ? "signal" : "status",
             signal != 0 ? signal : status, said[0] ? ": " : "", said);
  }
  upgrade_refuse(upgrade, why);
}

static void on_limit(void *context) {
  struct upgrade *upgrade = context;
  child_kill(upgrade->child);
}

static bool write_config(struct upgrade *upgrade) {
  const char *text = upgrade->server->config->text;
  size_t length = strlen(text);
  upgrade->config = memfd_create("framed:config", MFD_CLOEXEC);
  upgrade->said = memfd_create("framed:said", MFD_CLOEXEC);
  upgrade->answered = memfd_create("framed:answered", MFD_CLOEXEC);
  return upgrade->config >= 0 && upgrade->said >= 0 && upgrade->answered >= 0 &&
         write(upgrade->config, text, length) == (ssize_t)length;
}

static bool upgrade_ask(struct upgrade *upgrade, struct failure *failure) {
  char version[STATE_VERSION_TEXT], path[32];
  const char *program = exec_program();
  snprintf(path, sizeof path, "/proc/self/fd/%d", CONFIG_FD);
  state_version(version);
  if (!program) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the program that runs cannot be found any more");
    return false;
  }
  char *arguments[] = {(char *)(uintptr_t)program, "--check", "--state", version, "-c", path, NULL};
  const int descriptors[] = {CHILD_NULL, upgrade->answered, upgrade->said, upgrade->config}; /* the last is CONFIG_FD */
  const struct child_setup setup = {
      .program = program, .arguments = arguments, .descriptors = descriptors, .count = CONFIG_FD + 1};
  upgrade->child = child_start(&upgrade->server->loop, &setup, on_child_end, upgrade, failure);
  return upgrade->child != NULL;
}

static void upgrade_start(struct upgrade *upgrade) {
  upgrade->timer = loop_timer_new(&upgrade->server->loop, on_limit, upgrade);
  if (!upgrade->timer || !write_config(upgrade)) {
    upgrade_refuse(upgrade, "not enough memory");
    return;
  }
  struct failure failure;
  if (!upgrade_ask(upgrade, &failure)) {
    upgrade_refuse(upgrade, failure.text);
    return;
  }
  upgrade->server->asking = child_pid(upgrade->child);
  loop_timer_start(upgrade->timer, LIMIT_MS, 0);
}

void server_upgrade(struct server *server, server_answer *answer, void *context) {
  struct failure failure;
  const char *obstacle = server->upgrade                                          ? "another upgrade is under way"
                         : server->stop_wanted || server->phase != SERVER_RUNNING ? "the daemon starts or stops"
                         : server->reload                                         ? "a reload is under way"
                         : is_one_late(server)                                    ? LATE
                         : !server_has_files(server, &failure)                    ? failure.text
                                                                                  : NULL;
  struct upgrade *upgrade = obstacle ? NULL : calloc(1, sizeof *upgrade);
  if (!upgrade) {
    obstacle = obstacle ? obstacle : "not enough memory";
    say_refusal(server, obstacle);
    answer_error(answer, context, 409, "try again later", "%s", obstacle);
    return;
  }
  server->refusal[0] = '\0';
  *upgrade = (struct upgrade){.server = server, .answer = answer, .context = context, .config = -1, .said = -1, .answered = -1};
  server->upgrade = upgrade;
  upgrade_start(upgrade);
}

/* -- over a hand-over for another reason ------------------------------------------------------------------------------- */

void upgrade_go_on(struct server *server) {
  /* a child of the image before this one is still a child of this process */
  if (server->asked > 0 && waitpid(server->asked, NULL, WNOHANG) == 0) {
    kill(server->asked, SIGKILL);
    waitpid(server->asked, NULL, 0);
  }
  server->asked = 0;
  if (server->upgrades_again) {
    server_upgrade(server, answer_nobody, NULL);
  }
}

void upgrade_cancel(struct server *server) {
  struct upgrade *upgrade = server->upgrade;
  if (!upgrade) {
    return;
  }
  if (upgrade->answer) {
    answer_error(upgrade->answer, upgrade->context, 409, NULL, "the daemon is stopping");
    upgrade->answer = NULL;
  }
  if (upgrade->child) {
    child_kill(upgrade->child); /* on_child_end() does the rest */
  } else {
    upgrade_end(upgrade);
  }
}
