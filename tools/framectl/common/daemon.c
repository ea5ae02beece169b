#include "tools/framectl/common/daemon.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/framectl/common/http.h"
#include "tools/framectl/common/progress.h"
#include "tools/framectl/common/text.h"

static json_t *make_safe(json_t *value);

static json_t *make_safe_object(json_t *object) {
  json_t *safe = json_object(), *value;
  const char *key;
  json_object_foreach(object, key, value) {
    char *name = text_safe(key, false);
    if (!name || json_object_set_new(safe, name, make_safe(value)) != 0) {
      json_decref(safe);
      safe = NULL;
    }
    free(name);
  }
  return safe;
}

static json_t *make_safe_array(json_t *array) {
  json_t *safe = json_array(), *value;
  size_t at;
  json_array_foreach(array, at, value) {
    if (json_array_append_new(safe, make_safe(value)) != 0) {
      json_decref(safe);
      safe = NULL;
    }
  }
  return safe;
}

/* Copies a document with all names and texts safe to print, so that no command has to escape them. NULL: no memory. */
static json_t *make_safe(json_t *value) {
  if (json_is_object(value)) {
    return make_safe_object(value);
  }
  if (json_is_array(value)) {
    return make_safe_array(value);
  }
  if (!json_is_string(value)) {
    return json_incref(value);
  }
  char *text = text_safe(json_string_value(value), false);
  json_t *safe = text ? json_string(text) : NULL;
  free(text);
  return safe;
}

static json_t *parse(const struct question *question, const struct reply *reply, struct problem *problem) {
  json_error_t error;
  json_t *sent = json_loadb(reply->body ? reply->body : "", reply->length, 0, &error);
  json_t *document = sent ? make_safe(sent) : NULL;
  json_decref(sent);
  if (!document) {
    problem_set(problem, EXIT_STATUS_NO_DAEMON, "is it framed's status socket?", "what answers at %s is not framed",
                question->socket);
  }
  return document;
}

/* Turns an answer with {"error", "remedy"} into a problem. */
static bool report_refusal(const struct question *question, const struct reply *reply, struct problem *problem) {
  json_t *document = parse(question, reply, problem);
  if (document) {
    const char *error = json_string_value(json_object_get(document, "error"));
    const char *remedy = json_string_value(json_object_get(document, "remedy"));
    problem_set(problem, EXIT_STATUS_REFUSED, remedy, "%s", error ? error : "the daemon refuses");
    json_decref(document);
  }
  return false;
}

static bool ask(const struct question *question, struct reply *reply, struct problem *problem) {
  if (!http_ask(question, reply, problem)) {
    return false;
  }
  return reply->status / 100 == 2 || report_refusal(question, reply, problem);
}

static json_t *ask_json(const struct question *question, struct problem *problem) {
  struct reply reply = {0};
  json_t *document = ask(question, &reply, problem) ? parse(question, &reply, problem) : NULL;
  reply_clear(&reply);
  return document;
}

char *daemon_text(const char *socket, const char *path, int timeout_ms, struct problem *problem) {
  const struct question question = {.socket = socket, .method = "GET", .path = path, .timeout_ms = timeout_ms};
  struct reply reply = {0};
  char *text = NULL;
  if (ask(&question, &reply, problem)) {
    text = text_safe(reply.body ? reply.body : "", true);
  }
  reply_clear(&reply);
  return text;
}

bool daemon_stream(const char *socket, const char *path, int timeout_ms, reply_receiver *receive, http_idle *idle,
                   void *context, struct problem *problem) {
  const struct question question = {
      .socket = socket, .method = "GET", .path = path, .timeout_ms = timeout_ms, .idle = idle, .idle_context = context};
  struct reply reply = {.receive = receive, .context = context};
  bool fine = ask(&question, &reply, problem);
  reply_clear(&reply);
  return fine;
}

json_t *daemon_status(const char *socket, int timeout_ms, struct problem *problem) {
  const struct question question = {.socket = socket, .method = "GET", .path = "/v1/status", .timeout_ms = timeout_ms};
  json_t *document = ask_json(&question, problem);
  if (document && !json_is_object(json_object_get(document, "pipelines"))) {
    json_decref(document);
    document = NULL;
    problem_set(problem, EXIT_STATUS_NO_DAEMON, "is it framed's status socket?", "what answers at %s is not framed", socket);
  }
  return document;
}

json_t *daemon_health(const char *socket, int timeout_ms, struct problem *problem) {
  const struct question question = {.socket = socket, .method = "GET", .path = "/v1/health", .timeout_ms = timeout_ms};
  struct reply reply = {0};
  json_t *document = NULL;
  if (http_ask(&question, &reply, problem) && (reply.status == 200 || reply.status == 503)) {
    document = parse(&question, &reply, problem);
    if (document &&
        !json_is_boolean(json_object_get(document, "ok"))) { /* the daemon is stopping, or another program answers */
      json_decref(document);
      document = NULL;
      report_refusal(&question, &reply, problem);
    }
  } else if (reply.status != 0) {
    report_refusal(&question, &reply, problem);
  }
  reply_clear(&reply);
  return document;
}

/* Names become part of a path. A text that is no valid name belongs to no pipeline, so no request is needed. */
static bool is_name(const char *text) {
  size_t length = strlen(text);
  for (size_t i = 0; i < length; i++) {
    if (!isalnum((unsigned char)text[i]) && !strchr("_-.", text[i])) {
      return false;
    }
  }
  return length > 0 && length <= 64;
}

struct patience {
  struct progress progress;
  const char *command, *pipeline;
};

static void show_patience(void *context) {
  struct patience *patience = context;
  progress_show(&patience->progress, -1, "waiting for %s%s%s", patience->command, patience->pipeline ? " of " : "",
                patience->pipeline ? patience->pipeline : "");
}

json_t *daemon_command(const char *socket, const char *pipeline, const char *command, int timeout_ms, struct problem *problem) {
  char path[128];
  snprintf(path, sizeof path, "/v1/%s", command);
  if (pipeline) {
    if (!is_name(pipeline)) {
      problem_set(problem, EXIT_STATUS_USAGE, "`framectl status` lists the pipelines", "'%s' cannot be the name of a pipeline",
                  pipeline);
      return NULL;
    }
    snprintf(path, sizeof path, "/v1/pipelines/%s/%s", pipeline, command);
  }
  struct patience patience = {.command = command, .pipeline = pipeline};
  if (timeout_ms < 0) {
    progress_begin(&patience.progress);
  }
  const struct question question = {.socket = socket,
                                    .method = "POST",
                                    .path = path,
                                    .timeout_ms = timeout_ms,
                                    .idle = show_patience,
                                    .idle_context = &patience};
  json_t *answer = ask_json(&question, problem);
  progress_clear(&patience.progress);
  return answer;
}

static bool is_framed(int pid) {
  char path[64], name[32] = "";
  snprintf(path, sizeof path, "/proc/%d/comm", pid);
  FILE *file = fopen(path, "re");
  bool found = file && fgets(name, sizeof name, file) && strcmp(name, "framed\n") == 0;
  if (file) {
    fclose(file);
  }
  return found;
}

int daemon_pid(const char *path) {
  struct problem problem = {0};
  struct ucred peer = {0};
  socklen_t size = sizeof peer;
  int fd = unix_connect(path, "framed", DAEMON_PATIENCE_MS, &problem);
  bool known = fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && is_framed(peer.pid);
  if (fd >= 0) {
    close(fd);
  }
  problem_clear(&problem);
  return known ? peer.pid : 0;
}
