/*
 * The configurations that are in use: the one in force, and replaced ones, whose text and numbers the pipelines that a reload
 * left untouched still read. A replaced configuration is freed when the last of its pipelines is.
 */
#include <stdlib.h>

#include "daemon/server/private.h"

static bool is_of(const struct config_pipeline *used, const struct config *config) {
  return used >= config->pipelines && used < config->pipelines + config->pipeline_count;
}

/* Its models are in use, too. */
static bool has_stages(const struct server *server, const struct config *config) {
  bool used = false;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    used = used || is_of(pipeline_stages_config(server->pipelines[i]), config);
  }
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    used = used || is_of(pipeline_stages_config(hanging->pipeline), config);
  }
  return used;
}

static bool in_use(const struct server *server, const struct config *config) {
  bool used = false;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    used = used || is_of(pipeline_config(server->pipelines[i]), config);
  }
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    used = used || is_of(pipeline_config(hanging->pipeline), config);
  }
  return used;
}

struct generation *generation_new(struct config *config) {
  struct generation *generation = calloc(1, sizeof *generation);
  if (generation) {
    generation->config = config;
  }
  return generation;
}

struct generation *generation_free(struct generation *generation) {
  if (generation) {
    config_free(generation->config);
    free(generation);
  }
  return NULL;
}

void server_adopt(struct server *server, struct generation *generation) {
  generation->next = server->generation;
  server->generation = generation;
  server->config = generation->config;
  quota_limit(server->quota, &server->config->limits);
}

void server_sweep(struct server *server) {
  struct generation **link = &server->generation->next;
  while (*link) {
    struct generation *generation = *link;
    if (has_stages(server, generation->config)) {
      link = &generation->next;
    } else if (in_use(server, generation->config)) {
      config_close_models(generation->config);
      link = &generation->next;
    } else {
      *link = generation->next;
      generation_free(generation);
    }
  }
}

struct pipeline_setup server_pipeline_setup(struct server *server) {
  return (struct pipeline_setup){.loop = &server->loop,
                                 .control = &server->control,
                                 .engine = server->engine,
                                 .quota = server->quota,
                                 .gpu_timeout_ns = server->config->gpu.timeout_ns,
                                 .listener = server->on_pipeline,
                                 .context = server};
}
