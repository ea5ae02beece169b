#include "daemon/server/reload_swap.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/server/config_diff.h"
#include "daemon/server/distinct.h"

struct incoming {            /* beside each pipeline of the new configuration */
  struct pipeline *pipeline; /* NULL: the old one stays */
  struct pipeline_inheritance inheritance;
};

struct outgoing {
  struct pipeline *pipeline;
  bool quiet;
};

struct replacement {
  struct server *server;
  const struct config *config;
  struct difference difference;
  struct incoming *incoming; /* one for each pipeline of the new configuration */
  struct outgoing *outgoing; /* changed and removed ones */
  unsigned outgoing_count;
  struct pipeline **next; /* the server's new list */
  bool installed;         /* it is in force */
  json_t *document;
};

/* -- making it ------------------------------------------------------------------------------------------------- */

/* Who leaves and has this path until then. */
static struct pipeline *find_owner(const struct replacement *replacement, enum config_endpoint endpoint, const char *path) {
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    struct pipeline *pipeline = replacement->outgoing[i].pipeline;
    const struct config_pipeline *config = pipeline_config(pipeline);
    bool by_source = endpoint == CONFIG_SOCKET && config->source.endpoint == endpoint && strcmp(config->source.path, path) == 0;
    bool by_sink = config->sink.endpoint == endpoint && strcmp(config->sink.path, path) == 0;
    if (by_source || by_sink) {
      return pipeline;
    }
  }
  return NULL;
}

static void find_inheritance(const struct replacement *replacement, const struct config_pipeline *config,
                             struct pipeline_inheritance *inheritance) {
  if (config->source.endpoint == CONFIG_SOCKET) {
    inheritance->source = find_owner(replacement, CONFIG_SOCKET, config->source.path);
  }
  if (config->sink.endpoint != CONFIG_REPLY) {
    inheritance->sink = find_owner(replacement, config->sink.endpoint, config->sink.path);
  }
}

static void list_outgoing(struct replacement *replacement) {
  const struct difference *difference = &replacement->difference;
  for (unsigned i = 0; i < difference->old_count; i++) {
    bool leaves = difference->removed[i];
    for (unsigned j = 0; j < difference->new_count; j++) {
      leaves = leaves || (difference->now[j].change == CHANGE_CHANGED && difference->now[j].old == i);
    }
    if (leaves) {
      replacement->outgoing[replacement->outgoing_count++].pipeline = replacement->server->pipelines[i];
    }
  }
}

static bool make_incoming(struct replacement *replacement, struct failure *failure) {
  const struct pipeline_setup setup = server_pipeline_setup(replacement->server);
  for (unsigned i = 0; i < replacement->difference.new_count; i++) {
    if (replacement->difference.now[i].change == CHANGE_NONE) {
      replacement->next[i] = replacement->server->pipelines[replacement->difference.now[i].old];
      continue;
    }
    const struct config_pipeline *config = &replacement->config->pipelines[i];
    struct incoming *incoming = &replacement->incoming[i];
    find_inheritance(replacement, config, &incoming->inheritance);
    incoming->pipeline = replacement->next[i] = pipeline_new(&setup, config, failure);
    if (!incoming->pipeline) {
      return false;
    }
  }
  return true;
}

static json_t *make_document(const struct replacement *replacement) {
  json_t *lists[] = {[CHANGE_NONE] = json_array(), [CHANGE_CHANGED] = json_array(), [CHANGE_ADDED] = json_array()};
  json_t *removed = json_array();
  for (unsigned i = 0; i < replacement->difference.new_count; i++) {
    json_array_append_new(lists[replacement->difference.now[i].change], json_string(replacement->config->pipelines[i].name));
  }
  for (unsigned i = 0; i < replacement->difference.old_count; i++) {
    if (replacement->difference.removed[i]) {
      json_array_append_new(removed, json_string(replacement->server->config->pipelines[i].name));
    }
  }
  bool same = strcmp(replacement->config->text, replacement->server->config->text) == 0;
  return json_pack("{s:b, s:b, s:o, s:o, s:o, s:o}", "ok", 1, "same", same, "added", lists[CHANGE_ADDED], "removed", removed,
                   "changed", lists[CHANGE_CHANGED], "unchanged", lists[CHANGE_NONE]);
}

static bool allocate(struct replacement *replacement) {
  if (!difference_make(&replacement->difference, replacement->server->config, replacement->config)) {
    return false;
  }
  replacement->incoming = calloc(replacement->difference.new_count + 1, sizeof *replacement->incoming);
  replacement->outgoing = calloc(replacement->difference.old_count + 1, sizeof *replacement->outgoing);
  replacement->next = calloc(replacement->difference.new_count + 1, sizeof(struct pipeline *));
  replacement->document = make_document(replacement);
  return replacement->incoming && replacement->outgoing && replacement->next && replacement->document;
}

struct replacement *replacement_new(struct server *server, const struct config *config, struct failure *failure) {
  struct replacement *replacement = calloc(1, sizeof *replacement);
  if (replacement) {
    replacement->server = server;
    replacement->config = config;
  }
  if (!replacement || !allocate(replacement)) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory to reload");
    return replacement_free(replacement);
  }
  list_outgoing(replacement);
  return make_incoming(replacement, failure) ? replacement : replacement_free(replacement);
}

struct replacement *replacement_free(struct replacement *replacement) {
  if (!replacement) {
    return NULL;
  }
  for (unsigned i = 0; replacement->installed && i < replacement->outgoing_count; i++) {
    pipeline_free(replacement->outgoing[i].pipeline);
  }
  for (unsigned i = 0; !replacement->installed && replacement->incoming && i < replacement->difference.new_count; i++) {
    pipeline_free(replacement->incoming[i].pipeline);
  }
  difference_clear(&replacement->difference);
  free(replacement->incoming);
  free(replacement->outgoing);
  free(replacement->next);
  json_decref(replacement->document);
  free(replacement);
  return NULL;
}

/* -- steps ----------------------------------------------------------------------------------------------------- */

bool replacement_prepare(struct replacement *replacement, struct failure *failure) {
  for (unsigned i = 0; i < replacement->difference.new_count; i++) {
    struct incoming *incoming = &replacement->incoming[i];
    if (incoming->pipeline && !pipeline_prepare(incoming->pipeline, &incoming->inheritance, failure)) {
      return false;
    }
  }
  return true;
}

bool replacement_may_open(const struct replacement *replacement, struct failure *failure) {
  bool may = true;
  for (unsigned i = 0; may && i < replacement->difference.new_count; i++) {
    may =
        !replacement->incoming[i].pipeline || server_may_open(replacement->server, &replacement->config->pipelines[i], failure);
  }
  return may;
}

void replacement_quiesce(struct replacement *replacement) {
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    pipeline_quiesce(replacement->outgoing[i].pipeline, false);
  }
}

void replacement_unquiesce(struct replacement *replacement) {
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    pipeline_restore_access(replacement->outgoing[i].pipeline);
    pipeline_unquiesce(replacement->outgoing[i].pipeline);
  }
}

void replacement_on_quiet(struct replacement *replacement, const struct pipeline *pipeline) {
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    if (replacement->outgoing[i].pipeline == pipeline) {
      replacement->outgoing[i].quiet = true;
    }
  }
}

bool replacement_is_quiet(const struct replacement *replacement) {
  bool quiet = true;
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    quiet = quiet && replacement->outgoing[i].quiet;
  }
  return quiet;
}

bool replacement_prepare_inherited(struct replacement *replacement, struct failure *failure) {
  for (unsigned i = 0; i < replacement->difference.new_count; i++) {
    struct incoming *incoming = &replacement->incoming[i];
    if (incoming->pipeline && !pipeline_prepare_inherited(incoming->pipeline, &incoming->inheritance, failure)) {
      return false;
    }
  }
  return distinct_files(replacement->config, failure);
}

void replacement_stop_old(struct replacement *replacement) {
  for (unsigned i = 0; i < replacement->difference.new_count; i++) {
    if (replacement->incoming[i].pipeline) {
      pipeline_inherit(replacement->incoming[i].pipeline, &replacement->incoming[i].inheritance);
    }
  }
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    pipeline_stop(replacement->outgoing[i].pipeline);
  }
}

void replacement_let_hang(struct replacement *replacement) {
  unsigned kept = 0;
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    if (!server_let_hang(replacement->server, replacement->outgoing[i].pipeline)) {
      replacement->outgoing[kept++] = replacement->outgoing[i];
    }
  }
  replacement->outgoing_count = kept;
}

bool replacement_old_is_gone(const struct replacement *replacement) {
  bool gone = true;
  for (unsigned i = 0; i < replacement->outgoing_count; i++) {
    gone = gone && pipeline_state(replacement->outgoing[i].pipeline) == PIPELINE_STOPPED;
  }
  return gone;
}

bool replacement_start_new(struct replacement *replacement, struct failure *failure) {
  struct server *server = replacement->server;
  free(server->pipelines);
  server->pipelines = replacement->next;
  server->pipeline_count = replacement->difference.new_count;
  replacement->next = NULL;
  replacement->installed = true;
  bool started = true;
  for (unsigned i = 0; i < replacement->difference.new_count; i++) {
    struct pipeline *pipeline = replacement->incoming[i].pipeline;
    started = (!pipeline || pipeline_start(pipeline, failure)) && started;
  }
  return started;
}

void replacement_release(struct replacement *replacement) {
  for (unsigned i = 0; replacement->installed && i < replacement->outgoing_count; i++) {
    pipeline_release(replacement->outgoing[i].pipeline);
  }
  for (unsigned i = 0; !replacement->installed && i < replacement->difference.new_count; i++) {
    if (replacement->incoming[i].pipeline) {
      pipeline_release(replacement->incoming[i].pipeline);
    }
  }
}

json_t *replacement_document(const struct replacement *replacement) { return json_incref(replacement->document); }
