/*
 * `framectl upgrade`: starts the installed program in place of the running one, and polls the daemon until it has taken over.
 * The daemon answers the request before it executes the program, so only a later status shows the outcome.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/status/view.h"

enum { LIMIT_MS = 30000, PAUSE_MS = 20, VERSION_ROOM = 64 };

struct before {
  char version[VERSION_ROOM];
  int64_t started_ms; /* the latest possible start, by this machine's clock */
  uint64_t upgrades;
};

enum outcome { WAITING, DONE, REFUSED };

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t uptime_ms(const struct daemon_view *view) { return (int64_t)(view->uptime_s * 1000); }

static bool look_before(const struct invocation *invocation, struct before *before, struct problem *problem) {
  json_t *document = daemon_status(invocation->socket, DAEMON_PATIENCE_MS, problem);
  if (!document) {
    return false;
  }
  struct daemon_view view;
  view_daemon(document, &view);
  snprintf(before->version, sizeof before->version, "%s", view.version);
  before->started_ms = now_ms() + 2 - uptime_ms(&view);
  before->upgrades = view.handovers.upgrades;
  json_decref(document);
  return true;
}

/* Judges the status that was requested at `asked`. A restarted daemon counts from zero and knows of no upgrade. */
static enum outcome judge(const struct before *before, const struct daemon_view *view, int64_t asked, struct problem *problem) {
  if (asked - uptime_ms(view) > before->started_ms) {
    problem_set(problem, EXIT_STATUS_REFUSED, "`journalctl -u framed -x` says why; producers and readers have to connect again",
                "framed %s was restarted, and lost the connections and frames of the previous process", view->version);
    return REFUSED;
  }
  if (view->handovers.upgrades > before->upgrades) {
    return DONE;
  }
  if (!view->handovers.upgrading) {
    const char *why = view->handovers.refused;
    if (!why[0] && now_ms() - uptime_ms(view) > before->started_ms) {
      return WAITING; /* it may have restarted during the request; the next answer is quicker */
    }
    problem_set(problem, EXIT_STATUS_REFUSED,
                why[0] ? "install a program that can take over, or restart the service" : "try again",
                "the running program continues: %s", why[0] ? why : "another request interfered");
    return REFUSED;
  }
  return WAITING;
}

/*
 * Returns /v1/status once the program has taken over, or NULL with a problem. Requests fail while one program replaces the
 * other.
 */
static json_t *wait_for_upgrade(const struct invocation *invocation, const struct before *before, struct problem *problem) {
  enum outcome outcome = WAITING;
  for (int64_t now = now_ms(), deadline = now + LIMIT_MS; outcome == WAITING && now < deadline; now = now_ms()) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    int64_t asked = now_ms();
    json_t *document = daemon_status(invocation->socket, (int)(deadline - now), problem);
    if (document) {
      struct daemon_view view;
      view_daemon(document, &view);
      problem_set(problem, EXIT_STATUS_REFUSED, "`journalctl -u framed -x` says more", "no other program took over within %d s",
                  LIMIT_MS / 1000);
      outcome = judge(before, &view, asked, problem);
      if (outcome == DONE) {
        return document;
      }
      json_decref(document);
    }
  }
  return NULL;
}

static void print(const struct before *before, const struct daemon_view *view, const char *program, bool json) {
  if (json) {
    json_t *document = json_pack("{s:b, s:s, s:s, s:s, s:f}", "ok", 1, "program", program, "version", view->version,
                                 "version_before", before->version, "gap_ms", view->handovers.gap_ms);
    json_dumpf(document, stdout, TEXT_JSON);
    putchar('\n');
    json_decref(document);
    return;
  }
  char gap[TEXT_ROOM];
  bool same = strcmp(before->version, view->version) == 0;
  printf("%s, framed %s, took over%s%s after %s, with all connections and frames\n", program, view->version,
         same ? "" : " from ", same ? "" : before->version, text_duration(gap, view->handovers.gap_ms * 1000));
}

bool command_upgrade(const struct invocation *invocation, struct problem *problem) {
  struct before before;
  if (!look_before(invocation, &before, problem)) {
    return false;
  }
  json_t *answer = daemon_command(invocation->socket, NULL, "upgrade", -1, problem);
  bool refused =
      !answer && problem->status == EXIT_STATUS_REFUSED; /* any other failure may come from a crash during the request */
  json_t *document = refused ? NULL : wait_for_upgrade(invocation, &before, problem);
  if (document) {
    const char *program = json_string_value(json_object_get(answer, "program"));
    struct daemon_view view;
    view_daemon(document, &view);
    problem_clear(problem);
    print(&before, &view, program ? program : "the installed program", invocation->json);
  }
  bool fine = document != NULL;
  json_decref(document);
  json_decref(answer);
  return fine;
}
