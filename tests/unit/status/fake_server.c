#include "tests/unit/status/fake_server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/measure/history.h"
#include "daemon/status/trace.h"
#include "gpu/record/figures.h"

const char *const pipeline_state_names[] = {"starting", "running", "paused",   "draining", "drained",
                                            "failed",   "waiting", "stopping", "stopped"};

static char name_cam0[] = "cam0", name_idle[] = "idle", socket_in[] = "/run/framed/cam0.sock", socket_idle[] = "/run/idle.sock",
            socket_out[] = "/run/framed/cam0.out.sock", status_socket[] = "/run/framed/status.sock",
            config_text[] = "pipelines:\n  cam0: {}\n";

static void fill_config(struct server *server) {
  server->entries[0] = (struct config_pipeline){
      .name = name_cam0,
      .source = {.endpoint = CONFIG_SOCKET, .path = socket_in, .protocol = CONFIG_PROTOCOL_RAW},
      .sink = {.endpoint = CONFIG_SOCKET, .path = socket_out, .protocol = CONFIG_PROTOCOL_RAW},
  };
  server->entries[1] = (struct config_pipeline){
      .name = name_idle,
      .source = {.endpoint = CONFIG_SOCKET, .path = socket_idle, .protocol = CONFIG_PROTOCOL_Y4M},
      .sink = {.endpoint = CONFIG_REPLY, .protocol = CONFIG_PROTOCOL_Y4M},
  };
  server->config.status.socket = status_socket;
  server->config.pipelines = server->entries;
  server->config.pipeline_count = FAKE_PIPELINES;
  server->config.text = config_text;
}

void fake_record(struct histogram_view *view, int64_t ns, unsigned times) {
  struct histogram *histogram = calloc(1, sizeof *histogram);
  for (unsigned i = 0; histogram && i < times; i++) {
    histogram_record(histogram, ns);
  }
  if (histogram) {
    histogram_read(histogram, view);
  }
  free(histogram);
}

static void fill_cam0(struct pipeline_snapshot *snapshot) {
  snapshot->state = PIPELINE_RUNNING;
  snapshot->sessions = snapshot->clients = 1;
  snapshot->readers = 3;
  snapshot->listed = 1;
  snapshot->list[0] = (struct pipeline_client){
      .pid = 42, .uid = 7, .process = "ffmpeg", .since = 1, .frames = 1000, .waiting = "reader", .devices = 0x2};
  snapshot->devices = 3;
  snapshot->missed = 5;
  snapshot->refused = 7;
  snapshot->refusal = (struct refusal){.at = 1, .text = "somebody was refused", .remedy = "do not come again"};
  snapshot->ledger = (struct ledger){.in = 1000, .in_flight = 2, .in_bytes = 307200000, .out_bytes = 306278400};
  snapshot->ledger.fates[FATE_EMITTED] = 997;
  snapshot->ledger.fates[FATE_LATE] = 1;
  snapshot->seconds = 10;
  static const struct trouble full = {.count = 3, .since = 1, .last = 2 * NS_PER_S, .text = "no room", .remedy = "make some"};
  snapshot->sink_trouble = &full;
  snapshot->last_in = 1;
  snapshot->in_fps = 60.5;
  snapshot->out_fps = 59.9;
  snapshot->slots = 4;
  snapshot->graph = snapshot->copies = snapshot->copies_by_kernel = true;
  snapshot->timed_one_in = 8;
  snapshot->busy_s = 7.25;
  snapshot->diagnosis = (struct diagnosis){.ratio = 0.48,
                                           .devices = 2,
                                           .speedup = 1.93,
                                           .ideal_speedup = 1.96,
                                           .bound_by = BOUND_D2H,
                                           .gain = 1.25,
                                           .improve = IMPROVE_SLOTS,
                                           .work = {.service = {70, 20, 80},
                                                    .slots = 3,
                                                    .kernels = 1,
                                                    .turnaround = 12,
                                                    .host = 3,
                                                    .succession = {71, 19, 0},
                                                    .alone = 190},
                                           .advice = "another slot"};
  snapshot->in_bytes_per_s = 18400000;
  snapshot->out_bytes_per_s = 18400000;
  snapshot->latency[STEP_TOTAL] =
      (struct histogram_summary){.count = 599, .mean = 320.1, .p50 = 310, .p99 = 480, .p999 = 900, .max = 1200};
  fake_record(&snapshot->cumulative[STEP_TOTAL], 310000, 900);
  fake_record(&snapshot->cumulative[STEP_TOTAL], 1200000, 97);
  snprintf(snapshot->input, sizeof snapshot->input, "gray 640x480");
  snprintf(snapshot->output, sizeof snapshot->output, "gray 640x480");
  snapshot->input_bytes = snapshot->output_bytes = 307200;
}

bool fake_server_free(struct server *server) {
  bool empty = uv_loop_close(&server->loop) == 0;
  for (int i = 0; i < FAKE_PIPELINES; i++) {
    trace_ring_drop(server->pipelines[i].ring);
  }
  free(server);
  return empty;
}

static void answer_ok(server_answer *answer, void *context) { answer(context, 200, json_pack("{s:b}", "ok", 1)); }

static void answer_trace(const struct server *server, const struct trace_order *order) {
  static const struct trace_subject subject = {.pipeline = "cam0", .sessions = 1};
  struct trace *trace = trace_new(NULL);
  trace->backend = server->view.backend;
  bool made = trace_add_subject(trace, &subject);
  for (unsigned i = 0; made && i < server->trace_frames; i++) {
    const struct trace_record record = {.sequence = i, .first_byte = 1000 + i, .settled = 2000 + i, .fate = FATE_LATE};
    made = trace_add_records(trace, 0, &record, 1);
  }
  if (made && trace_lay_out(trace)) {
    order->ready(order->context, trace);
  } else {
    trace_free(trace);
    answer_error(order->failed, order->context, 503, NULL, "no memory");
  }
}

static void fake_trace(struct server *server, const struct trace_order *order) {
  server->traced++;
  server->trace_ns = order->duration_ns;
  if (server->answer_later && server->traces_pending < FAKE_PENDING) {
    server->traces[server->traces_pending++] = *order;
  } else {
    answer_trace(server, order);
  }
}

void fake_server_answer(struct server *server) {
  while (server->traces_pending > 0) {
    struct trace_order order = server->traces[--server->traces_pending];
    answer_trace(server, &order);
  }
  while (server->pending_count > 0) {
    struct fake_pending pending = server->pending[--server->pending_count];
    answer_ok(pending.answer, pending.context);
  }
}

static void fake_reload(struct server *server, server_answer *answer, void *context) {
  server->reloads++;
  answer_ok(answer, context);
}

static void fake_upgrade(struct server *server, server_answer *answer, void *context) {
  server->upgrades++;
  answer_ok(answer, context);
}

static void fake_command(struct server *server, const struct command_order *order) {
  server->commands++;
  server->command = order->command;
  snprintf(server->command_pipeline, sizeof server->command_pipeline, "%s", order->pipeline);
  if (server->answer_later && server->pending_count < FAKE_PENDING) {
    server->pending[server->pending_count++] = (struct fake_pending){order->answer, order->context};
  } else {
    answer_ok(order->answer, order->context);
  }
}

static void fake_picture(struct server *server, const struct picture_order *order) {
  if (strcmp(order->pipeline, "cam0") != 0) {
    answer_error(order->failed, order->context, 404, NULL, "there is no such pipeline");
    return;
  }
  if (order->live && server->live_pictures++ % 2 == 1) { /* a live view ends after one */
    answer_error(order->failed, order->context, 503, NULL, "no memory");
    return;
  }
  order->ready(order->context, (unsigned char *)strdup(order->side == PICTURE_IN ? "in" : "out"),
               order->side == PICTURE_IN ? 2 : 3);
}

static void fake_read(const struct server *server, struct server_view *view) {
  static const struct history none;
  *view = server->view;
  view->history = view->history ? view->history : &none;
}

static void fake_usage(const struct server *server, struct usage *usage) {
  (void)server;
  *usage = (struct usage){.resident_bytes = 12000000, .descriptors = 20, .pinned_bytes = 614400, .device_bytes = 1228800};
}

/* A driver does not say everything of every device. */
static void fake_device(const struct server *server, unsigned index, struct device_view *view) {
  static const double figures[NVML_FIGURES] = {0.42, 2e9, 150e9, 61, 312.5, 1.98e9, NAN};
  static const struct worker_history workers[] = {
      {.generation = 3, .replaced = 2, .since = 2, .stopped = 1, .gap = 12500000, .text = "it was ended by signal 9"},
      {.generation = 1, .since = 1}};
  *view =
      (struct device_view){.number = index, .name = server->view.device, .address = "", .figures = index == 0 ? figures : NULL};
  view->state = index == 0 ? "open" : "failed";
  view->producers = index == 0 ? 1 : 0;
  view->text = "it is broken";
  view->since = index == 0 ? 0 : 1;
  view->worker = index == 0 ? 4711 : 0;
  view->workers = &workers[index];
  view->standby = index == 0 ? 4712 : 0;
  view->standby_is = "warm";
}

static struct health *fake_health(const struct server *server) {
  static const struct health_item items[] = {
      {.kind = HEALTH_LANES, .ok = true, .remedy = ""},
      {.kind = HEALTH_DEVICE, .name = "0", .ok = true, .remedy = "", .canary_s = 0.000123, .canary_age_s = 0.5},
      {.kind = HEALTH_PIPELINE, .name = "cam0", .ok = true, .remedy = ""},
      {.kind = HEALTH_PIPELINE, .name = "idle", .ok = true, .remedy = ""},
      {.kind = HEALTH_TROUBLE,
       .name = "cam0",
       .reason = HEALTH_SILENT,
       .since_s = 7,
       .count = 2,
       .remedy = "look",
       .why = "no frame"},
  };
  struct health *health = calloc(1, sizeof *health + sizeof items);
  if (health) {
    health->count = sizeof items / sizeof items[0] - !server->silent;
    memcpy(health->items, items, sizeof items);
    if (server->ill) {
      health->items[1].ok = false;
      snprintf(health->items[1].why, sizeof health->items[1].why, "it stands");
    }
    health_sum_up(health);
  }
  return health;
}

static struct pipeline *fake_pipeline(const struct server *server, unsigned index) {
  return (struct pipeline *)&server->pipelines[index];
}

static void fake_device_command(struct server *server, const struct device_order *order) {
  (void)server;
  order->answer(
      order->context, 200,
      json_pack("{s:i, s:s}", "device", (int)order->number, "did", order->command == DEVICE_DRAIN ? "drain" : "resume"));
}

static void set_ops(struct server *server) {
  server->ops = (struct status_ops){.server = server,
                                    .loop = &server->loop,
                                    .live_viewers = &server->live_viewers,
                                    .read = fake_read,
                                    .device = fake_device,
                                    .usage = fake_usage,
                                    .health = fake_health,
                                    .pipeline = fake_pipeline,
                                    .reload = fake_reload,
                                    .upgrade = fake_upgrade,
                                    .command = fake_command,
                                    .device_command = fake_device_command,
                                    .trace = fake_trace,
                                    .picture = fake_picture};
}

struct server *fake_server_new(void) {
  struct server *server = calloc(1, sizeof *server);
  if (!server || uv_loop_init(&server->loop) != 0) {
    free(server);
    return NULL;
  }
  set_ops(server);
  fill_config(server);
  fill_cam0(&server->pipelines[0].snapshot);
  server->pipelines[0].snapshot.name = name_cam0;
  server->pipelines[1].snapshot.name = name_idle;
  server->pipelines[0].config = &server->entries[0];
  server->pipelines[1].config = &server->entries[1];
  server->pipelines[1].snapshot.waiting = WAITING_FOR_PRODUCER;
  server->pipelines[1].snapshot.clients = 4;
  server->view = (struct server_view){.version = "0.1.0",
                                      .uptime_s = 12.5,
                                      .backend = "cpu",
                                      .device = "a \"processor\"",
                                      .lacks = {.models = "models do not run on the GPU"},
                                      .config = &server->config,
                                      .pipeline_count = FAKE_PIPELINES,
                                      .device_count = 2,
                                      .lanes = 2,
                                      .reloads = 3,
                                      .reload_failures = 1};
  return server;
}

void pipeline_snapshot(struct pipeline *pipeline, struct pipeline_snapshot *snapshot) { *snapshot = pipeline->snapshot; }

const struct config_pipeline *pipeline_config(const struct pipeline *pipeline) { return pipeline->config; }

const struct engine_placement *pipeline_placement_of(const struct pipeline *pipeline, unsigned producer) {
  static struct engine_placement place;
  (void)producer;
  place = (struct engine_placement){.count = 1, .on = {{.number = pipeline->config->device}}};
  return &place;
}

unsigned pipeline_seats(const struct pipeline *pipeline) {
  (void)pipeline;
  return 1;
}

bool pipeline_copies_by_kernel(const struct pipeline *pipeline) { return pipeline->snapshot.copies_by_kernel; }

struct trace_ring *pipeline_trace(struct pipeline *pipeline, unsigned seat, unsigned frames) {
  (void)seat;
  if (!pipeline->ring) {
    pipeline->ring = trace_ring_new(frames);
  }
  pipeline->traced = true;
  return pipeline->ring;
}

void pipeline_report_link(struct pipeline *pipeline, enum link_role role, const struct link_state *state) {
  links_report(&pipeline->snapshot.links, role, state, clock_now());
}

const struct past *pipeline_past(const struct pipeline *pipeline) { return &pipeline->past; }

void pipeline_trace_end(struct pipeline *pipeline, unsigned seat) {
  (void)seat;
  pipeline->traced = false;
}
