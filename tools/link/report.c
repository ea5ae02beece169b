#include "tools/link/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/framectl/common/http.h"

enum { HOLDS_S = 10, PATIENCE_MS = 1000 };

/* NULL: the state is not known yet, or no memory. */
static char *make_report(struct link *link, bool gone) {
  struct standing *standing = &link->standing;
  char *report = NULL;
  pthread_mutex_lock(&standing->lock);
  if (standing->since != 0) {
    json_t *document = json_pack("{s:s, s:b, s:b, s:f, s:i, s:i, s:s}", "role", settings_role(link->settings), "connected",
                                 standing->connected, "warns", standing->warns, "since_s",
                                 (double)(link_clock() - standing->since) / 1e9, "expires_s", gone ? 0 : HOLDS_S,
                                 "unacknowledged", (int)atomic_load(&link->in_flight), "error", standing->error);
    if (document && standing->has_queue) {
      json_object_set_new(document, "queue",
                          json_pack("{s:I, s:I, s:f}", "depth", (json_int_t)standing->depth, "unserved",
                                    (json_int_t)standing->unserved, "oldest_s", (double)standing->oldest_ns / 1e9));
    }
    report = document ? json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(document);
  }
  pthread_mutex_unlock(&standing->lock);
  return report;
}

enum outcome { REPORTED, REFUSED, NOBODY };

static enum outcome post(const struct settings *settings, const char *pipeline, const char *report, struct problem *problem) {
  char path[256];
  const struct question question = {
      .socket = settings->status, .method = "POST", .path = path, .body = report, .timeout_ms = PATIENCE_MS};
  struct reply reply = {0};
  snprintf(path, sizeof path, "/v1/pipelines/%s/link", pipeline);
  enum outcome outcome = !http_ask(&question, &reply, problem) ? NOBODY : reply.status == 200 ? REPORTED : REFUSED;
  if (outcome == REFUSED) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "it answers %d", reply.status);
  }
  reply_clear(&reply);
  return outcome;
}

void report_links(struct fleet *fleet, bool *silent) {
  enum outcome outcome = REPORTED;
  bool fine = true;
  for (unsigned i = 0; i < fleet->count && outcome != NOBODY; i++) {
    struct link *link = &fleet->links[i];
    struct problem problem = {0};
    bool gone = fleet->ended[i];
    char *report = link->settings ? make_report(link, gone) : NULL;
    outcome = report ? post(fleet->settings, link->settings->name, report, &problem) : REPORTED;
    if (outcome != REPORTED && !*silent && !gone) {
      link_say(link, "cannot report this link to the daemon at %s: %s", fleet->settings->status, problem.text);
    }
    fine = fine && outcome == REPORTED;
    free(report);
    problem_clear(&problem);
  }
  *silent = !fine;
}
