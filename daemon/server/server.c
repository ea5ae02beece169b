#include "daemon/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/server/private.h"
#include "daemon/state/fd_store.h"
#include "daemon/status/tracer.h"

/* -- questions and commands -------------------------------------------------------------------------------------- */

static void read_view(const struct server *server, struct server_view *view) {
  struct gpu_device *device = engine_main_device(server->engine);
  *view = (struct server_view){.version = FRAMED_VERSION,
                               .uptime_s = (double)(clock_now() - server->started) / (double)NS_PER_S,
                               .backend = gpu_backend_name(device),
                               .device = gpu_device_name(device),
                               .config = server->config,
                               .pipeline_count = server->pipeline_count,
                               .lanes = engine_lanes(server->engine),
                               .reloads = server->reloads,
                               .reload_failures = server->reload_failures,
                               .reload_refusal = server->reload_refusal[0] ? server->reload_refusal : NULL,
                               .history = &server->history,
                               .upgrading = server->upgrade != NULL,
                               .refusal = server->refusal[0] ? server->refusal : NULL,
                               .stopping = server->stop_wanted || server->phase >= SERVER_STOPPING};
}

static void read_usage(const struct server *server, struct usage *usage) {
  struct gpu_usage of_devices;
  engine_usage(server->engine, &of_devices);
  usage_of_process(usage);
  usage->pinned_bytes = of_devices.pinned;
  usage->device_bytes = of_devices.allocated;
}

static struct pipeline *pipeline_at(const struct server *server, unsigned index) { return server->pipelines[index]; }

static void list_names(const struct server *server, char *text, size_t size) {
  size_t length = (size_t)snprintf(text, size, "%s", server->pipeline_count > 0 ? "there are: " : "there is none");
  for (unsigned i = 0; i < server->pipeline_count && length < size; i++) {
    length +=
        (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", pipeline_config(server->pipelines[i])->name);
  }
}

static void obey(struct server *server, const struct command_order *order) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (strcmp(pipeline_config(server->pipelines[i])->name, order->pipeline) == 0) {
      pipeline_command(server->pipelines[i], order->command, server->config->drain_timeout_ns, order->answer, order->context);
      return;
    }
  }
  char names[512];
  list_names(server, names, sizeof names);
  answer_error(order->answer, order->context, 404, names, "there is no pipeline '%s'", order->pipeline);
}

/* NULL: not enough memory. */
static struct postponed *postpone(const struct command_order *order) {
  size_t bytes = strlen(order->pipeline) + 1;
  struct postponed *postponed = calloc(1, sizeof *postponed + bytes);
  if (postponed) {
    memcpy(postponed->pipeline, order->pipeline, bytes);
    postponed->order = *order;
    postponed->order.pipeline = postponed->pipeline;
  }
  return postponed;
}

/* RESUME answers at once, PAUSE when no frame is taken any more. DRAIN answers when nothing is in flight, or with 504 and what
 * it waits for after `drain_timeout`, or with 409 if it is resumed before. 404, with the names there are, for an unknown
 * one. */
static void take_command(struct server *server, const struct command_order *order) {
  if (!server->reload || !reload_is_exchanging(server->reload)) {
    obey(server, order);
    return;
  }
  struct postponed **end = &server->postponed;
  while (*end) {
    end = &(*end)->next;
  }
  *end = postpone(order);
  if (!*end) {
    answer_error(order->answer, order->context, 503, "try again later", "not enough memory to wait for a reload");
  }
}

/* Whoever gave up waiting takes it that nothing was done, and would be surprised by frames that stop or come later on. */
static void forget(const struct command_order *order) {
  log_event(LOG_REFUSED, NULL, "pipeline '%s' was not told to %s: who asked for it has left while it waited for a reload",
            order->pipeline, pipeline_command_names[order->command]);
  answer_error(order->answer, order->context, 503, NULL, "nobody waits for this any more");
}

void server_obey_postponed(struct server *server) {
  while (server->postponed) {
    struct postponed *first = server->postponed;
    server->postponed = first->next;
    if (first->order.wanted(first->order.context)) {
      obey(server, &first->order);
    } else {
      forget(&first->order);
    }
    free(first);
  }
}

static void take_trace(struct server *server, const struct trace_order *order) { tracer_take(server->tracer, order); }

static struct status_ops ops_of(struct server *server) {
  return (struct status_ops){.server = server,
                             .loop = &server->loop,
                             .read = read_view,
                             .usage = read_usage,
                             .health = server_health,
                             .pipeline = pipeline_at,
                             .reload = server_reload,
                             .upgrade = server_upgrade,
                             .command = take_command,
                             .trace = take_trace};
}

/* -- for the files beside this one ------------------------------------------------------------------------------- */

struct pipeline_setup server_pipeline_setup(struct server *server) {
  return (struct pipeline_setup){.loop = &server->loop,
                                 .control = &server->control,
                                 .engine = server->engine,
                                 .quota = server->quota,
                                 .gpu_timeout_ns = server->config->gpu.timeout_ns,
                                 .listener = server_on_pipeline,
                                 .context = server};
}

static bool is_of(const struct pipeline *pipeline, const struct config *config) {
  const struct config_pipeline *used = pipeline_config(pipeline);
  return used >= config->pipelines && used < config->pipelines + config->pipeline_count;
}

static bool in_use(const struct server *server, const struct config *config) {
  bool used = false;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    used = used || is_of(server->pipelines[i], config);
  }
  for (const struct hanging *hanging = server->hanging; hanging; hanging = hanging->next) {
    used = used || is_of(hanging->pipeline, config);
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
    if (in_use(server, generation->config)) {
      link = &generation->next;
    } else {
      *link = generation->next;
      generation_free(generation);
    }
  }
}

/* -- from begin to end ------------------------------------------------------------------------------------------- */

static bool open_loop(struct server *server, struct failure *failure) {
  int status = uv_loop_init(&server->loop);
  if (status == 0) {
    server->loop_open = true;
    status = mailbox_open(&server->control, &server->loop);
  }
  return status == 0 ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot make the control loop: %s", uv_strerror(status));
}

static void run(struct server *server) {
  struct failure failure;
  if (!open_loop(server, &failure)) {
    if (server->codec) {
      server_start_over(server->codec, failure.text);
    }
    log_event(LOG_FAILED, NULL, "%s", failure.text);
    server->exit_status = failure.status;
    return;
  }
  if (!server_start(server, &failure)) {
    server_fail_start(server, &failure);
  }
  uv_run(&server->loop, UV_RUN_DEFAULT);
}

/* The loop has ended, and with it every handle. */
static void close_server(struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_release(server->pipelines[i]);
    pipeline_free(server->pipelines[i]);
  }
  free(server->pipelines);
  checkup_free(server);
  tracer_free(server->tracer);
  engine_close(server->engine);
  quota_free(server->quota);
  free(server->unanswered);
  listener_close(server->status_listener);
  listener_close(server->http_listener);
  if (server->loop_open && uv_loop_close(&server->loop) != 0) {
    log_event(LOG_FAILED, NULL, "the control loop ended with open handles");
    server->exit_status = EXIT_STATUS_INTERNAL;
  }
  while (server->generation) {
    struct generation *generation = server->generation;
    server->generation = generation->next;
    generation_free(generation);
  }
}

enum exit_status server_run(const char *path, struct config *config, struct codec *codec, bool reload) {
  struct server *server = calloc(1, sizeof *server);
  struct generation *generation = server ? generation_new(config) : NULL;
  struct quota *quota = quota_new();
  log_open(config->log_level);
  if ((!generation || !quota) && codec) {
    server_start_over(codec, "not enough memory");
  }
  if (!generation || !quota) {
    log_event(LOG_FAILED, NULL, "not enough memory to start");
    quota_free(quota);
    free(generation); /* without what it would have taken */
    free(server);
    config_free(config);
    return EXIT_STATUS_INTERNAL;
  }
  server->path = path;
  server->ops = ops_of(server);
  server->quota = quota;
  server->codec = codec;
  server->reload_at_once = reload;
  server->started = clock_now();
  server_adopt(server, generation);
  run(server);
  close_server(server);
  fd_store_end();
  log_flush();
  enum exit_status status = server->exit_status;
  free(server);
  return status;
}
