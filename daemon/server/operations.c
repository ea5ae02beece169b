/*
 * What status, metrics, traces and commands from outside ask of the server: the functions behind `struct status_ops`.
 *
 * Answers are read from the server as it stands at that moment, and nothing here changes its phase. A command that meets a
 * reload which exchanges pipelines waits until the new ones are there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/device/formats.h"
#include "daemon/server/private.h"
#include "daemon/status/pictures.h"
#include "daemon/status/tracer.h"

/* -- questions -------------------------------------------------------------------------------------------------------- */

/* A device that is not open. */
static const struct engine_absent *absent_at(const struct server *server, unsigned index) {
  for (unsigned i = 0; i < engine_absents(server->engine); i++) {
    const struct engine_absent *absent = engine_absent(server->engine, i);
    if (!engine_device(server->engine, absent->number) && index-- == 0) {
      return absent;
    }
  }
  return NULL;
}

static void read_view(const struct server *server, struct server_view *view) {
  struct device *device = engine_main_device(server->engine);
  unsigned absent = 0;
  while (absent_at(server, absent)) {
    absent++;
  }
  *view = (struct server_view){.version = FRAMED_VERSION,
                               .uptime_s = (double)(clock_now() - server->started) / (double)NS_PER_S,
                               .backend = device_backend_name(device),
                               .device = device_name(device),
                               .config = server->config,
                               .pipeline_count = server->pipeline_count,
                               .device_count = engine_devices(server->engine) + absent,
                               .lanes = engine_lanes(server->engine),
                               .reloads = server->reloads,
                               .reload_failures = server->reload_failures,
                               .reload_refusal = server->reload_refusal[0] ? server->reload_refusal : NULL,
                               .http_refusal = server->http_refusal[0] ? server->http_refusal : NULL,
                               .history = &server->history,
                               .upgrading = server->upgrade != NULL,
                               .refusal = server->refusal[0] ? server->refusal : NULL,
                               .stopping = server->stop_wanted || server->phase >= SERVER_STOPPING};
  device_find_lacks(formats_backend(server->config->gpu.backend), &view->lacks);
}

static void read_absent(const struct server *server, const struct engine_absent *absent, struct device_view *view) {
  *view = (struct device_view){.number = absent->number,
                               .name = absent->name,
                               .address = "",
                               .lost = absent->why == ENGINE_FAILED,
                               .state = engine_absence_names[absent->why],
                               .text = absent->text,
                               .since = absent->since,
                               .workers = &server->workers[absent->number]};
}

/* Devices that are left out come after the open ones, but for one that is being drained and is both. */
static void read_device(const struct server *server, unsigned index, struct device_view *view) {
  unsigned open = engine_devices(server->engine);
  if (index >= open) {
    read_absent(server, absent_at(server, index - open), view);
    return;
  }
  unsigned number = engine_device_number(server->engine, index);
  struct device *device = engine_device(server->engine, number);
  enum device_standby standby = DEVICE_STANDBY_OFF;
  const bool is_replaced = recovery_is_under_way(server, number);
  *view = (struct device_view){.number = number,
                               .name = device_name(device),
                               .address = device_address(device),
                               .lost = device_is_lost(device),
                               .state = engine_find_absent(server->engine, number) ? "draining" : "open",
                               .producers = engine_producers(server->engine, number),
                               .figures = device_is_lost(device) ? NULL : device_figures(device),
                               .worker = is_replaced ? 0 : device_worker(device),
                               .workers = &server->workers[number],
                               .standby = device_standing(device, &standby),
                               .standby_is = standby == DEVICE_STANDBY_WARM ? "warm" : "bare"};
}

static void read_usage(const struct server *server, struct usage *usage) {
  struct gpu_usage of_devices;
  engine_usage(server->engine, &of_devices);
  usage_of_process(usage);
  usage->pinned_bytes = of_devices.pinned;
  usage->device_bytes = of_devices.allocated;
}

static struct pipeline *pipeline_at(const struct server *server, unsigned index) { return server->pipelines[index]; }

static void obey(struct server *server, const struct command_order *order) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (strcmp(pipeline_config(server->pipelines[i])->name, order->pipeline) == 0) {
      pipeline_command(server->pipelines[i], order->command, server->config->drain_timeout_ns, order->answer, order->context);
      return;
    }
  }
  char names[512];
  size_t length = (size_t)snprintf(names, sizeof names, "%s", server->pipeline_count > 0 ? "there are: " : "there is none");
  for (unsigned i = 0; i < server->pipeline_count && length < sizeof names; i++) {
    const char *name = pipeline_config(server->pipelines[i])->name;
    length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", name);
  }
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
 * the pipeline waits for after `drain_timeout`, or with 409 if the pipeline is resumed before. For an unknown pipeline the
 * answer is 404, with the names there are. */
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

void server_obey_postponed(struct server *server) {
  while (server->postponed) {
    struct postponed *first = server->postponed;
    server->postponed = first->next;
    if (first->order.wanted(first->order.context)) {
      obey(server, &first->order);
    } else { /* a client that gave up waiting takes it that nothing was done, and would be surprised by what happens later */
      log_event(LOG_REFUSED, NULL, "pipeline '%s' was not told to %s: who asked for it has left while it waited for a reload",
                first->order.pipeline, pipeline_command_names[first->order.command]);
      answer_error(first->order.answer, first->order.context, 503, NULL, "nobody waits for this any more");
    }
    free(first);
  }
}

static void take_trace(struct server *server, const struct trace_order *order) { tracer_take(server->tracer, order); }

static void take_picture(struct server *server, const struct picture_order *order) { pictures_take(server->pictures, order); }

struct status_ops server_ops(struct server *server) {
  return (struct status_ops){.server = server,
                             .loop = &server->loop,
                             .live_viewers = &server->live_viewers,
                             .read = read_view,
                             .device = read_device,
                             .usage = read_usage,
                             .health = server_health,
                             .pipeline = pipeline_at,
                             .reload = server_reload,
                             .upgrade = server_upgrade,
                             .command = take_command,
                             .device_command = server_device,
                             .trace = take_trace,
                             .picture = take_picture};
}
