/*
 * The configurations that are in use: the one in force, and replaced ones, whose text and numbers the pipelines that a reload
 * left untouched still read. A replaced configuration is freed when the last of its pipelines is, and what was opened for its
 * models is closed when the last pipeline that runs them does so no more: by a worker, since there may be threads to wait for.
 */
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/server/private.h"

static bool is_of(const struct config_pipeline *used, const struct config *config) {
  return used >= config->pipelines && used < config->pipelines + config->pipeline_count;
}

static bool uses(const struct pipeline *pipeline, const struct config *config) {
  return is_of(pipeline_config(pipeline), config) || is_of(pipeline_stages_config(pipeline), config);
}

static bool in_use(const struct server *server, const struct config *config) {
  bool used = false;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    used = used || uses(server->pipelines[i], config);
  }
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    used = used || uses(hanging->pipeline, config);
  }
  return used || (server->tried && uses(server->tried, config));
}

static bool is_run(const struct server *server, const struct config_model *model) {
  bool runs = false;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    runs = runs || config_runs(pipeline_stages_config(server->pipelines[i]), model);
  }
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    runs = runs || config_runs(pipeline_stages_config(hanging->pipeline), model);
  }
  return runs || (server->tried && config_runs(pipeline_stages_config(server->tried), model));
}

static void close_opened(void *context) { config_close(context); }
static void on_closed(void *context) { (void)context; }

static void close_models(struct server *server, const struct config *config) {
  struct config_opened *opened = NULL;
  for (unsigned i = 0; i < config->model_count; i++) {
    if (!is_run(server, config->models[i])) {
      opened = config_take_opened(config->models[i], opened);
    }
  }
  if (opened && !loop_job(&server->loop, close_opened, on_closed, opened)) {
    config_close(opened);
  }
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

void server_discard(struct server *server, struct generation *generation) {
  if (generation && generation->config) {
    close_models(server, generation->config);
  }
  generation_free(generation);
}

void server_adopt(struct server *server, struct generation *generation) {
  generation->next = server->generation;
  server->generation = generation;
  server->config = generation->config;
  quota_limit(server->quota, &server->config->limits);
}

void server_sweep(struct server *server) {
  struct generation **link = &server->generation->next;
  while (*link && !server->reload) { /* whose end sweeps, once the programs of stages that were are freed */
    struct generation *generation = *link;
    close_models(server, generation->config);
    if (in_use(server, generation->config)) {
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
                                 .cameras = server->cameras,
                                 .gpu_timeout_ns = server->config->gpu.timeout_ns,
                                 .listener = server->on_pipeline,
                                 .context = server};
}
