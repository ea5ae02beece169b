/*
 * `framectl watch`: prints the result of `framectl health` at the start and at each change, one line each. It ends at an
 * interrupt, or when its output is closed. It survives restarts of the daemon.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/interrupt.h"
#include "tools/framectl/common/text.h"

enum { LOOK_MS = 1000, PATIENCE_MS = 3000 };

struct watch {
  const struct invocation *invocation;
  const char *state; /* at the last check; NULL: none yet */
  json_t *reasons;   /* at the last check */
};

static const char *text_of(const json_t *entry, const char *key) {
  const char *text = json_string_value(json_object_get(entry, key));
  return text ? text : "";
}

static bool is_same(const json_t *one, const json_t *other) {
  return strcmp(text_of(one, "subject"), text_of(other, "subject")) == 0 &&
         strcmp(text_of(one, "name"), text_of(other, "name")) == 0 &&
         strcmp(text_of(one, "reason"), text_of(other, "reason")) == 0;
}

/* The members of `reasons` that are not in `others`. */
static json_t *without(const json_t *reasons, const json_t *others) {
  json_t *found = json_array();
  size_t at, beside;
  json_t *entry, *other;
  json_array_foreach(reasons, at, entry) {
    bool known = false;
    json_array_foreach(others, beside, other) { known = known || is_same(entry, other); }
    if (!known) {
      json_array_append(found, entry);
    }
  }
  return found;
}

static void print_reasons(const json_t *reasons, bool is_over, const char *separator) {
  size_t at;
  json_t *entry;
  json_array_foreach(reasons, at, entry) {
    const char *name = text_of(entry, "name");
    printf("%s%s%s%s%s", at == 0 ? separator : "; ", text_of(entry, "subject"), name[0] ? " " : "", name,
           text_of(entry, "subject")[0] ? ": " : "");
    printf(is_over ? "no longer %s" : "%s", text_of(entry, "reason"));
    printf("%s%s", is_over ? "" : ", ", is_over ? "" : text_of(entry, "text"));
  }
}

struct change {
  const char *state, *why; /* why: the reason that the daemon does not answer, or "" */
  json_t *reasons, *began, *ended;
};

static void print_change(const struct change *change, bool as_json) {
  char now[32];
  const time_t seconds = time(NULL);
  struct tm parts;
  strftime(now, sizeof now, "%FT%TZ", gmtime_r(&seconds, &parts));
  if (as_json) {
    json_t *line = json_pack("{s:s, s:s, s:s, s:O, s:O, s:O}", "time", now, "state", change->state, "why", change->why, "began",
                             change->began, "ended", change->ended, "degraded", change->reasons);
    json_dumpf(line, stdout, TEXT_JSON_COMPACT);
    json_decref(line);
  } else {
    printf("%s %s%s%s", now, change->state, change->why[0] ? ": " : "", change->why);
    print_reasons(change->began, false, ": ");
    print_reasons(change->ended, true, json_array_size(change->began) > 0 ? "; " : ": ");
  }
  putchar('\n');
}

static const char *state_of(const json_t *document) {
  bool live = json_is_true(json_object_get(document, "live"));
  return !document ? "away" : json_is_true(json_object_get(document, "ok")) ? "healthy" : live ? "degraded" : "not live";
}

/* An unreachable daemon has no reasons, so all of them are printed again when it is back. */
static void look(struct watch *watch) {
  struct problem problem = {0};
  json_t *document = daemon_health(watch->invocation->socket, PATIENCE_MS, &problem);
  json_t *reasons = json_object_get(document, "degraded");
  reasons = reasons ? json_incref(reasons) : json_array();
  struct change change = {.state = state_of(document),
                          .why = document       ? ""
                                 : problem.text ? problem.text
                                                : "no memory",
                          .reasons = reasons,
                          .began = without(reasons, watch->reasons),
                          .ended = document ? without(watch->reasons, reasons) : json_array()};
  if (!watch->state || strcmp(change.state, watch->state) != 0 || json_array_size(change.began) > 0 ||
      json_array_size(change.ended) > 0) {
    print_change(&change, watch->invocation->json);
  }
  json_decref(change.began);
  json_decref(change.ended);
  json_decref(watch->reasons);
  watch->reasons = reasons;
  watch->state = change.state;
  json_decref(document);
  problem_clear(&problem);
}

/* Waits until the next check. False at an interrupt, or when the output is closed. */
static bool wait(void) {
  struct pollfd ends[] = {{.fd = interrupt_descriptor(), .events = POLLIN}, {.fd = STDOUT_FILENO}};
  return poll(ends, 2, LOOK_MS) == 0;
}

bool command_watch(const struct invocation *invocation, struct problem *problem) {
  struct watch watch = {.invocation = invocation, .reasons = json_array()};
  if (!watch.reasons || !interrupt_watch()) {
    json_decref(watch.reasons);
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory, or no descriptor");
  }
  int error = 0;
  do {
    look(&watch);
    error = fflush(stdout) != 0 ? errno : 0;
  } while (error == 0 && wait());
  json_decref(watch.reasons);
  if (error == EPIPE && !freopen("/dev/null", "we", stdout)) { /* the reader closed the pipe, which is no error */
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write to standard output: %s", strerror(errno));
  }
  return true;
}
