#include "daemon/server/swap.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/server/config_diff.h"
#include "daemon/server/config_files.h"

struct incoming {            /* beside each pipeline of the new configuration */
  struct pipeline *pipeline; /* NULL: the old one stays */
  struct pipeline_inheritance inheritance;
  struct pipeline *restaged; /* the old one goes on with other stages; or NULL */
};

struct outgoing {
  struct pipeline *pipeline;
  bool quiet;
};

struct swap {
  struct server *server;
  const struct config *config;
  struct diff diff;
  struct incoming *incoming; /* one for each pipeline of the new configuration */
  struct outgoing *outgoing; /* changed and removed pipelines */
  unsigned outgoing_count;
  struct pipeline **next; /* the server's list as it will be */
  bool installed;         /* `next` is the server's list */
  json_t *document;
};

/* -- making it ------------------------------------------------------------------------------------------------- */

/* The pipeline that leaves, and has this path until then. One that waits has nothing. */
static struct pipeline *find_owner(const struct swap *swap, enum config_endpoint endpoint, const char *path) {
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    struct pipeline *pipeline = swap->outgoing[i].pipeline;
    const struct config_pipeline *config = pipeline_config(pipeline);
    bool by_source = endpoint == CONFIG_SOCKET && config->source.endpoint == endpoint && strcmp(config->source.path, path) == 0;
    bool by_sink = config->sink.endpoint == endpoint && strcmp(config->sink.path, path) == 0;
    if ((by_source || by_sink) && pipeline_next_try(pipeline) == INT64_MAX) {
      return pipeline;
    }
  }
  return NULL;
}

/* Of pipelines that differ in their stages, those that can go on with the other ones; all others are replaced. */
static void find_restaged(struct swap *swap) {
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    if (swap->diff.now[i].change == CHANGE_STAGES) {
      struct pipeline *pipeline = swap->server->pipelines[swap->diff.now[i].old];
      bool goes_on = pipeline_begin_restage(pipeline, &swap->config->pipelines[i]);
      swap->incoming[i].restaged = goes_on ? pipeline : NULL;
      swap->diff.now[i].change = goes_on ? CHANGE_STAGES : CHANGE_CHANGED;
    }
  }
}

static void list_outgoing(struct swap *swap) {
  const struct diff *diff = &swap->diff;
  for (unsigned i = 0; i < diff->old_count; i++) {
    bool leaves = diff->removed[i];
    for (unsigned j = 0; j < diff->new_count; j++) {
      leaves = leaves || (diff->now[j].change == CHANGE_CHANGED && diff->now[j].old == i);
    }
    if (leaves) {
      swap->outgoing[swap->outgoing_count++].pipeline = swap->server->pipelines[i];
    }
  }
}

static bool make_incoming(struct swap *swap, struct failure *failure) {
  const struct pipeline_setup setup = server_pipeline_setup(swap->server);
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    if (swap->diff.now[i].change <= CHANGE_STAGES) {
      swap->next[i] = swap->server->pipelines[swap->diff.now[i].old];
      continue;
    }
    const struct config_pipeline *config = &swap->config->pipelines[i];
    struct incoming *incoming = &swap->incoming[i];
    if (config->source.endpoint == CONFIG_SOCKET) {
      incoming->inheritance.source = find_owner(swap, CONFIG_SOCKET, config->source.path);
    } else if (config->source.endpoint == CONFIG_CAMERA && swap->diff.now[i].change == CHANGE_CHANGED) {
      incoming->inheritance.camera = swap->server->pipelines[swap->diff.now[i].old];
    }
    if (config->sink.endpoint != CONFIG_REPLY) {
      incoming->inheritance.sink = find_owner(swap, config->sink.endpoint, config->sink.path);
    }
    incoming->pipeline = swap->next[i] = pipeline_new(&setup, config, failure);
    if (!incoming->pipeline) {
      return false;
    }
  }
  return true;
}

static json_t *make_document(const struct swap *swap) {
  json_t *lists[] = {[CHANGE_NONE] = json_array(),
                     [CHANGE_STAGES] = json_array(),
                     [CHANGE_CHANGED] = json_array(),
                     [CHANGE_ADDED] = json_array()};
  json_t *removed = json_array();
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    enum change change = swap->diff.now[i].change;
    json_array_append_new(lists[change], json_string(swap->config->pipelines[i].name));
    if (change == CHANGE_STAGES) {
      json_array_append_new(lists[CHANGE_CHANGED], json_string(swap->config->pipelines[i].name));
    }
  }
  for (unsigned i = 0; i < swap->diff.old_count; i++) {
    if (swap->diff.removed[i]) {
      json_array_append_new(removed, json_string(swap->server->config->pipelines[i].name));
    }
  }
  bool same = strcmp(swap->config->text, swap->server->config->text) == 0 && json_array_size(lists[CHANGE_CHANGED]) == 0;
  return json_pack("{s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "ok", 1, "same", same, "added", lists[CHANGE_ADDED], "removed",
                   removed, "changed", lists[CHANGE_CHANGED], "in_place", lists[CHANGE_STAGES], "unchanged",
                   lists[CHANGE_NONE]);
}

static bool allocate(struct swap *swap) {
  if (!config_diff_make(&swap->diff, swap->server->config, swap->config)) {
    return false;
  }
  swap->incoming = calloc(swap->diff.new_count + 1, sizeof *swap->incoming);
  swap->outgoing = calloc(swap->diff.old_count + 1, sizeof *swap->outgoing);
  swap->next = calloc(swap->diff.new_count + 1, sizeof(struct pipeline *));
  return swap->incoming && swap->outgoing && swap->next;
}

struct swap *swap_new(struct server *server, const struct config *config, struct failure *failure) {
  struct swap *swap = calloc(1, sizeof *swap);
  if (swap) {
    swap->server = server;
    swap->config = config;
  }
  if (!swap || !allocate(swap)) {
    failure_set_memory(failure, "not enough memory to reload");
    return swap_free(swap);
  }
  find_restaged(swap);
  list_outgoing(swap);
  swap->document = make_document(swap);
  return make_incoming(swap, failure) ? swap : swap_free(swap);
}

struct swap *swap_free(struct swap *swap) {
  if (!swap) {
    return NULL;
  }
  for (unsigned i = 0; swap->installed && i < swap->outgoing_count; i++) {
    pipeline_free(swap->outgoing[i].pipeline);
  }
  for (unsigned i = 0; !swap->installed && swap->incoming && i < swap->diff.new_count; i++) {
    pipeline_free(swap->incoming[i].pipeline);
  }
  for (unsigned i = 0; swap->incoming && i < swap->diff.new_count; i++) {
    if (swap->incoming[i].restaged) {
      pipeline_end_restage(swap->incoming[i].restaged);
    }
  }
  config_diff_clear(&swap->diff);
  free(swap->incoming);
  free(swap->outgoing);
  free(swap->next);
  json_decref(swap->document);
  free(swap);
  return NULL;
}

/* -- steps ----------------------------------------------------------------------------------------------------- */

/* A pipeline that would have to wait does not take the place of one that runs: the reload is refused then, as it is where the
 * text may be wrong. */
static bool may_wait(const struct swap *swap, unsigned index, const struct failure *failure) {
  const struct diff *diff = &swap->diff;
  return failure->passes && failure->status != EXIT_STATUS_CONFIG &&
         (diff->now[index].change == CHANGE_ADDED ||
          pipeline_next_try(swap->server->pipelines[diff->now[index].old]) != INT64_MAX);
}

static bool prepare_incoming(struct swap *swap, unsigned index, struct failure *failure) {
  struct incoming *incoming = &swap->incoming[index];
  if (waiting_prepare(incoming->pipeline, &incoming->inheritance, swap->diff.new_count, failure)) {
    return true;
  }
  incoming->inheritance = (struct pipeline_inheritance){0};
  return may_wait(swap, index, failure) && pipeline_wait(incoming->pipeline, failure);
}

bool swap_prepare(struct swap *swap, struct failure *failure) {
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    struct incoming *incoming = &swap->incoming[i];
    if ((incoming->pipeline && !prepare_incoming(swap, i, failure)) ||
        (incoming->restaged && !pipeline_prepare_restage(incoming->restaged, failure))) {
      return false;
    }
  }
  return true;
}

bool swap_may_prepare(const struct swap *swap) {
  bool may = true;
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    may = (!swap->incoming[i].restaged || pipeline_may_restage(swap->incoming[i].restaged)) && may;
  }
  return may;
}

bool swap_may_open(const struct swap *swap, struct failure *failure) {
  bool may = true;
  for (unsigned i = 0; may && i < swap->diff.new_count; i++) {
    may = !swap->incoming[i].pipeline || server_may_open(swap->server, &swap->config->pipelines[i], failure);
  }
  return may;
}

void swap_quiesce(struct swap *swap) {
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    pipeline_quiesce(swap->outgoing[i].pipeline, false);
  }
}

void swap_unquiesce(struct swap *swap) {
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    pipeline_restore_access(swap->outgoing[i].pipeline);
    pipeline_unquiesce(swap->outgoing[i].pipeline);
  }
}

void swap_on_quiet(struct swap *swap, const struct pipeline *pipeline) {
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    if (swap->outgoing[i].pipeline == pipeline) {
      swap->outgoing[i].quiet = true;
    }
  }
}

bool swap_is_quiet(const struct swap *swap) {
  bool quiet = true;
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    quiet = quiet && swap->outgoing[i].quiet;
  }
  return quiet;
}

bool swap_prepare_inherited(struct swap *swap, struct failure *failure) {
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    struct incoming *incoming = &swap->incoming[i];
    if (incoming->pipeline && !pipeline_prepare_inherited(incoming->pipeline, &incoming->inheritance, failure)) {
      return false;
    }
  }
  return config_files_distinct(swap->config, failure);
}

void swap_stop_old(struct swap *swap) {
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    if (swap->incoming[i].pipeline) {
      pipeline_inherit(swap->incoming[i].pipeline, &swap->incoming[i].inheritance);
    }
  }
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    pipeline_stop(swap->outgoing[i].pipeline);
  }
}

void swap_restage(struct swap *swap) {
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    if (swap->incoming[i].restaged) {
      pipeline_restage(swap->incoming[i].restaged);
    }
  }
}

void swap_let_hang(struct swap *swap) {
  unsigned kept = 0;
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    if (!server_let_hang(swap->server, swap->outgoing[i].pipeline)) {
      swap->outgoing[kept++] = swap->outgoing[i];
    }
  }
  swap->outgoing_count = kept;
}

bool swap_is_exchanged(const struct swap *swap) {
  bool gone = true;
  for (unsigned i = 0; i < swap->outgoing_count; i++) {
    gone = gone && pipeline_state(swap->outgoing[i].pipeline) == PIPELINE_STOPPED;
  }
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    gone = gone && (!swap->incoming[i].restaged || pipeline_is_restaged(swap->incoming[i].restaged));
  }
  return gone;
}

bool swap_start_new(struct swap *swap, struct failure *failure) {
  struct server *server = swap->server;
  free(server->pipelines);
  server->pipelines = swap->next;
  server->pipeline_count = swap->diff.new_count;
  swap->next = NULL;
  swap->installed = true;
  bool started = true;
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    struct pipeline *pipeline = swap->incoming[i].pipeline;
    started = (!pipeline || pipeline_start(pipeline, failure)) && started;
  }
  return started;
}

void swap_release(struct swap *swap) {
  for (unsigned i = 0; swap->installed && i < swap->outgoing_count; i++) {
    pipeline_release(swap->outgoing[i].pipeline);
  }
  for (unsigned i = 0; !swap->installed && i < swap->diff.new_count; i++) {
    if (swap->incoming[i].pipeline) {
      pipeline_release(swap->incoming[i].pipeline);
    }
  }
  for (unsigned i = 0; i < swap->diff.new_count; i++) {
    if (swap->incoming[i].restaged) {
      pipeline_release_restage(swap->incoming[i].restaged);
    }
  }
}

json_t *swap_document(const struct swap *swap) {
  json_t *waiting = json_object();
  for (unsigned i = 0; i < swap->server->pipeline_count; i++) {
    const struct pipeline *pipeline = swap->server->pipelines[i];
    if (pipeline_waits_for(pipeline)[0]) {
      json_object_set_new(waiting, pipeline_config(pipeline)->name, answer_string(pipeline_waits_for(pipeline)));
    }
  }
  json_object_set_new(swap->document, "waiting", waiting);
  return json_incref(swap->document);
}
