#include "daemon/status/links.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/status/reply.h"

#define LONGEST_S 60.0
#define OLDEST_S  1e9

/* -- in ------------------------------------------------------------------------------------------------------------- */

static bool find_role(const char *name, enum link_role *role) {
  for (*role = 0; *role < LINK_ROLES && strcmp(name, link_role_names[*role]) != 0;) {
    (*role)++;
  }
  return *role < LINK_ROLES;
}

/* As much of it as there is room for, with nothing that a terminal obeys. */
static void copy_error(const char *error, char copy[LINK_ERROR]) {
  size_t length = 0;
  for (; error[length] && length < LINK_ERROR - 1; length++) {
    copy[length] = (unsigned char)error[length] < ' ' || error[length] == 0x7f ? ' ' : error[length];
  }
  copy[length] = '\0';
}

enum { LINKS_PROBLEM = 160 };

static bool complain(char problem[LINKS_PROBLEM], const char *text) {
  snprintf(problem, LINKS_PROBLEM, "%s", text);
  return false;
}

static int64_t ns_of(double seconds) { return (int64_t)(seconds * (double)NS_PER_S); }

/* Reads what a link says at `now`. False with what is wrong with it. */
static bool links_read(const char *text, size_t length, int64_t now, enum link_role *role, struct link_state *state,
                       char problem[LINKS_PROBLEM]) {
  json_error_t mistake;
  json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, &mistake);
  const char *name, *error;
  double since, expires, oldest = 0;
  json_int_t unacknowledged, depth = -1, unserved = 0;
  int connected, warns = 0;
  bool fine =
      document && json_unpack_ex(document, &mistake, JSON_STRICT, "{s:s, s:b, s?b, s:F, s:F, s:I, s:s, s?{s:I, s:I, s:F}}",
                                 "role", &name, "connected", &connected, "warns", &warns, "since_s", &since, "expires_s",
                                 &expires, "unacknowledged", &unacknowledged, "error", &error, "queue", "depth", &depth,
                                 "unserved", &unserved, "oldest_s", &oldest) == 0;
  bool has_queue = fine && json_object_get(document, "queue") != NULL;
  if (!fine) {
    complain(problem, mistake.text);
  } else if (!find_role(name, role)) {
    fine = complain(problem, "role is sink, source or mqtt");
  } else if (!(since >= 0 && since <= OLDEST_S && expires >= 0 && expires <= LONGEST_S && unacknowledged >= 0)) {
    fine = complain(problem, "since_s and unacknowledged are not negative, and expires_s is from 0 to 60");
  } else if (has_queue && !(depth >= 0 && unserved >= 0 && oldest >= 0 && oldest <= OLDEST_S)) {
    fine = complain(problem, "depth, unserved and oldest_s of a queue are not negative");
  } else {
    *state = (struct link_state){.connected = connected != 0,
                                 .warns = connected && warns,
                                 .since = now - ns_of(since),
                                 .until = now + ns_of(expires),
                                 .unacknowledged = (uint64_t)unacknowledged,
                                 .has_queue = has_queue,
                                 .depth = has_queue ? (uint64_t)depth : 0,
                                 .unserved = (uint64_t)unserved,
                                 .oldest_s = oldest};
    copy_error(error, state->error);
  }
  json_decref(document);
  return fine;
}

void links_answer(struct http_request *request, struct pipeline *pipeline) {
  char problem[LINKS_PROBLEM];
  enum link_role role;
  struct link_state state;
  size_t length;
  const char *body = http_body(request, &length);
  if (!pipeline) {
    reply_json(request, 404, answer_error_document("there is no such pipeline", NULL), NULL);
  } else if (!body) {
    reply_json(request, 413, answer_error_document("a link says less", "send 4096 bytes at most"), NULL);
  } else if (!links_read(body, length, clock_now(), &role, &state, problem)) {
    reply_json(request, 400, answer_error_document(problem, "framed(8) says what a link tells"), NULL);
  } else {
    pipeline_report_link(pipeline, role, &state);
    reply_json(request, 200, json_pack("{s:b}", "ok", 1), NULL);
  }
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

json_t *links_document(const struct links *links) {
  json_t *document = json_object();
  for (enum link_role role = 0; role < LINK_ROLES; role++) {
    const struct link_state *link = &links->states[role];
    if (link->until == 0) {
      continue;
    }
    json_t *state =
        json_pack("{s:b, s:b, s:f, s:I, s:o}", "connected", link->connected, "warns", link->warns, "since_s",
                  round((double)(clock_now() - link->since) / (double)NS_PER_MS) / 1e3, "unacknowledged",
                  (json_int_t)link->unacknowledged, "error", link->error[0] ? answer_string(link->error) : json_null());
    if (state && link->has_queue) {
      json_object_set_new(state, "queue",
                          json_pack("{s:I, s:I, s:f}", "depth", (json_int_t)link->depth, "unserved", (json_int_t)link->unserved,
                                    "oldest_s", round(link->oldest_s)));
    }
    if (json_object_set_new(document, link_role_names[role], state) != 0) {
      json_decref(document);
      return NULL;
    }
  }
  return document;
}

static void write_metric(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count, bool connected) {
  const char *name = connected ? "framed_link_connected" : "framed_link_unacknowledged";
  fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", name,
          connected ? "1 if a link of a pipeline has its broker, else 0."
                    : "Messages of a link that its broker has not taken yet.",
          name);
  for (unsigned i = 0; i < count; i++) {
    for (enum link_role role = 0; role < LINK_ROLES; role++) {
      const struct link_state *link = &pipelines[i].links.states[role];
      if (link->until != 0) {
        fprintf(out, "%s{pipeline=\"%s\",role=\"%s\"} %" PRIu64 "\n", name, pipelines[i].name, link_role_names[role],
                connected ? (uint64_t)link->connected : link->unacknowledged);
      }
    }
  }
}

static const char *const queue_metrics[][2] = {
    {"framed_link_queue_depth", "Frames in the work queue of a source."},
    {"framed_link_queue_unserved", "Frames in the work queue that no box is given."},
    {"framed_link_queue_oldest_seconds", "Age of the oldest frame in the work queue."}};

static void write_queues(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count) {
  const char *role = link_role_names[LINK_ROLE_SOURCE];
  for (unsigned metric = 0; metric < sizeof queue_metrics / sizeof *queue_metrics; metric++) {
    const char *name = queue_metrics[metric][0];
    fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, queue_metrics[metric][1], name);
    for (unsigned i = 0; i < count; i++) {
      const struct link_state *link = &pipelines[i].links.states[LINK_ROLE_SOURCE];
      const double values[] = {(double)link->depth, (double)link->unserved, link->oldest_s};
      if (link->until != 0 && link->has_queue) {
        fprintf(out, "%s{pipeline=\"%s\",role=\"%s\"} %.0f\n", name, pipelines[i].name, role, values[metric]);
      }
    }
  }
}

void links_write_metrics(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count) {
  write_metric(out, pipelines, count, true);
  write_metric(out, pipelines, count, false);
  write_queues(out, pipelines, count);
}
