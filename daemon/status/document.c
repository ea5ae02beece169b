/*
 * /v1/status as one JSON document.
 *
 * What always holds: every pipeline's frames come from one snapshot and so balance; a key is always there, with 0
 * where nothing happened yet, so that a reader needs no case for it, but for what a driver does not say of its device.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/measure/history.h"
#include "daemon/status/cameras.h"
#include "daemon/status/links.h"
#include "daemon/status/status.h"
#include "daemon/status/viewer.h"
#include "gpu/record/figures.h"

static const char *const waiting_names[] = {
    [WAITING_FOR_NOTHING] = "nothing", [WAITING_FOR_PRODUCER] = "producer", [WAITING_FOR_FRAMES] = "frames",
    [WAITING_FOR_GPU] = "gpu",         [WAITING_FOR_READER] = "reader",     [WAITING_FOR_RESUME] = "resume",
};

/* Three decimals are more than any of these figures is worth. */
static json_t *number(double value) { return json_real(isfinite(value) ? round(value * 1e3) / 1e3 : 0); }

static json_t *count(uint64_t value) { return json_integer((json_int_t)value); }

/* A document with one key more, or NULL where there is no memory for both: half a document is none. */
static json_t *with(json_t *document, const char *key, json_t *value) {
  if (json_object_set_new(document, key, value) == 0) {
    return document;
  }
  json_decref(document);
  return NULL;
}

/* How long ago that was; null: never. */
static json_t *age_document(int64_t at) {
  int64_t age = clock_now() - at;
  return at == 0 ? json_null() : number((double)(age > 0 ? age : 0) / (double)NS_PER_S);
}

static json_t *frames_document(const struct ledger *ledger) {
  json_t *dropped = json_object();
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    dropped = with(dropped, fate_names[fate], count(ledger->fates[fate]));
  }
  return json_pack("{s:o, s:o, s:o, s:o}", "in", count(ledger->in), "emitted", count(ledger->fates[FATE_EMITTED]), "in_flight",
                   count(ledger->in_flight), "dropped", dropped);
}

/* Reasons for which frames were dropped within the last minute; those of none are left out. */
static json_t *lately_document(const uint64_t fates[FATE_COUNT]) {
  json_t *dropped = json_object();
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    dropped = fates[fate] > 0 ? with(dropped, fate_names[fate], count(fates[fate])) : dropped;
  }
  return dropped;
}

static json_t *step_document(const struct histogram_summary *summary) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "p50", number(summary->p50), "p99", number(summary->p99), "p999",
                   number(summary->p999), "max", number(summary->max), "mean", number(summary->mean), "count",
                   count(summary->count));
}

static json_t *latency_document(const struct histogram_summary latency[STEP_COUNT]) {
  json_t *steps = json_object();
  steps = with(steps, step_names[STEP_TOTAL], step_document(&latency[STEP_TOTAL]));
  for (int step = 0; step < STEP_TOTAL; step++) {
    steps = with(steps, step_names[step], step_document(&latency[step]));
  }
  return steps;
}

static json_t *engines_document(const double us[OVERLAP_ENGINES]) {
  return json_pack("[o, o, o]", number(us[OVERLAP_H2D]), number(us[OVERLAP_KERNEL]), number(us[OVERLAP_D2H]));
}

/* What the slots win, what bounds the pipeline, and the figures behind that, from which `framectl plan` goes on. */
static json_t *overlap_document(const struct pipeline_snapshot *snapshot) {
  const struct diagnosis *diagnosis = &snapshot->diagnosis;
  json_t *document = json_pack("{s:o, s:o, s:o, s:s, s:s, s:o}", "ratio", number(diagnosis->ratio), "speedup",
                               number(diagnosis->speedup), "ideal_speedup", number(diagnosis->ideal_speedup), "bound_by",
                               bound_names[diagnosis->bound_by], "advice", diagnosis->advice, "gain", number(diagnosis->gain));
  document = with(document, "improve", json_string(improvement_names[diagnosis->improve]));
  document = with(document, "slots", json_integer(diagnosis->work.slots));
  document = with(document, "devices", json_integer(diagnosis->devices));
  document = with(document, "kernels_at_once", json_integer(diagnosis->work.kernels));
  document = with(document, "service_us", engines_document(diagnosis->work.service));
  document = with(document, "succession_us", engines_document(diagnosis->work.succession));
  document = with(document, "alone_us", number(diagnosis->work.alone));
  document = with(document, "host_us", number(diagnosis->work.host));
  document = with(document, "turnaround_us", number(diagnosis->work.turnaround));
  return document;
}

/* Where frames go in or results come out: {"socket": path} or {"file": path} or {"reply": true}, and what they are. */
static json_t *end_document(enum config_endpoint endpoint, const char *path, enum config_protocol protocol, size_t bytes) {
  json_t *document = json_pack("{s:s, s:o}", "protocol", config_protocol_names[protocol], "frame_bytes", count(bytes));
  switch (endpoint) {
  case CONFIG_SOCKET:
    document = with(document, "socket", json_string(path));
    break;
  case CONFIG_FILE:
    document = with(document, "file", json_string(path));
    break;
  case CONFIG_REPLY:
    document = with(document, "reply", json_true());
    break;
  case CONFIG_CAMERA:
    document = with(document, "url", json_string(path));
    break;
  }
  return document;
}

static const struct config_pipeline *find_config(const struct config *config, const char *name) {
  for (unsigned i = 0; config && i < config->pipeline_count; i++) {
    if (strcmp(config->pipelines[i].name, name) == 0) {
      return &config->pipelines[i];
    }
  }
  return NULL;
}

static json_t *with_ends(json_t *document, const struct pipeline_snapshot *snapshot, const struct config_pipeline *config) {
  if (!config) { /* removed by a reload and on its way out */
    return document;
  }
  document = with(document, "source",
                  end_document(config->source.endpoint, config->source.path, config->source.protocol, snapshot->input_bytes));
  return with(document, "sink",
              end_document(config->sink.endpoint, config->sink.path, config->sink.protocol, snapshot->output_bytes));
}

static json_t *refusal_document(const struct refusal *refusal) {
  return refusal->at == 0
             ? json_null()
             : json_pack("{s:o, s:s, s:s}", "age_s", number((double)(clock_now() - refusal->at) / (double)NS_PER_S), "text",
                         refusal->text, "remedy", refusal->remedy);
}

/* The last error, until it is mended; else null. */
static json_t *trouble_document(const struct trouble *trouble) {
  return !trouble || trouble->count == 0 ? json_null()
                                         : json_pack("{s:o, s:s, s:o, s:o, s:o}", "text", answer_string(trouble->text),
                                                     "remedy", trouble->remedy, "since_s", age_document(trouble->since),
                                                     "age_s", age_document(trouble->last), "count", count(trouble->count));
}

static json_t *numbers_document(uint64_t bits) {
  json_t *list = json_array();
  for (unsigned number = 0; bits >> number; number++) {
    if (bits >> number & 1) {
      json_array_append_new(list, json_integer(number));
    }
  }
  return list;
}

/* The device of a session that is whole on one, or the devices over which its frames are dealt. */
static json_t *with_devices(json_t *document, uint64_t bits) {
  return bits & (bits - 1) ? with(document, "devices", numbers_document(bits))
                           : with(document, "device", json_integer(__builtin_ctzll(bits)));
}

/* The clients that are listed; `sessions` and `readers` count all. */
static json_t *connected_document(const struct pipeline_snapshot *snapshot) {
  json_t *list = json_array();
  for (unsigned i = 0; i < snapshot->listed; i++) {
    const struct pipeline_client *client = &snapshot->list[i];
    json_t *document = json_pack("{s:s, s:i, s:I, s:s, s:o, s:o, s:o, s:s}", "role", client->reads ? "reader" : "producer",
                                 "pid", (int)client->pid, "user", (json_int_t)client->uid, "process", client->process,
                                 "since_s", age_document(client->since), "frames", count(client->frames), "missed",
                                 count(client->missed), "waiting", client->waiting);
    document = client->reads ? document : with_devices(document, client->devices);
    json_array_append_new(list, document);
  }
  return list;
}

static json_t *model_document(const struct pipeline_snapshot *snapshot) {
  json_t *instances = json_array(), *batches = json_array();
  for (unsigned i = 0; i < snapshot->instances; i++) {
    json_array_append_new(instances, count(snapshot->served[i]));
  }
  for (unsigned i = 0; i < snapshot->most_batched; i++) {
    json_array_append_new(batches, count(snapshot->batches[i]));
  }
  return json_pack("{s:o, s:o, s:o}", "file", snapshot->model ? answer_string(snapshot->model) : json_null(), "instances",
                   instances, "batches", batches);
}

/* What all views show as the state: why the pipeline does not do its job, or its own state. */
static const char *shown_state(const struct health *health, const struct pipeline_snapshot *snapshot) {
  const struct health_item *item = health ? health_find(health, snapshot->name) : NULL;
  return item ? health_reason_names[item->reason] : pipeline_state_names[snapshot->state];
}

/* What all views show as the last error: health's reason, an error that is none of those, or a client that was turned away
 * while no producer is there. */
static const char *last_error(const struct health *health, const struct pipeline_snapshot *snapshot) {
  const struct trouble *troubles[] = {snapshot->trouble, snapshot->source_trouble, snapshot->sink_trouble};
  const struct health_item *item = health ? health_find(health, snapshot->name) : NULL;
  const char *text = item ? item->why : "";
  for (size_t i = 0; i < sizeof troubles / sizeof *troubles && !text[0]; i++) {
    text = troubles[i] && troubles[i]->count > 0 ? troubles[i]->text : "";
  }
  bool is_refused = snapshot->sessions == 0 && snapshot->refusal.at > snapshot->last_in;
  return text[0] ? text : is_refused ? snapshot->refusal.text : "";
}

static json_t *pipeline_document(const struct pipeline_snapshot *snapshot, const struct config_pipeline *config,
                                 const struct health *health) {
  json_t *document =
      json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:{s:s, s:s}}", "state", pipeline_state_names[snapshot->state], "waiting",
                waiting_names[snapshot->waiting], "sessions", (int)snapshot->sessions, "clients", (int)snapshot->clients,
                "readers", (int)snapshot->readers, "missed", count(snapshot->missed), "refused", count(snapshot->refused),
                "formats", "input", snapshot->input, "output", snapshot->output);
  document = with(document, "condition", json_string(shown_state(health, snapshot)));
  document = with(document, "last_error", answer_string(last_error(health, snapshot)));
  document = with(document, "devices", numbers_document(snapshot->devices));
  document = with(document, "not_read", json_boolean(snapshot->not_read));
  bool waits = snapshot->waits_for && snapshot->waits_for[0];
  document = with(document, "waits_for", waits ? answer_string(snapshot->waits_for) : json_null());
  document = with(document, "last_refusal", refusal_document(&snapshot->refusal));
  document = with(document, "connected", connected_document(snapshot));
  document = with(document, "errors",
                  json_pack("{s:o, s:o, s:o}", "pipeline", trouble_document(snapshot->trouble), "source",
                            trouble_document(snapshot->source_trouble), "sink", trouble_document(snapshot->sink_trouble)));
  document = with(document, "silent", trouble_document(snapshot->silence));
  document = with(document, "camera", camera_document(snapshot));
  document = with(document, "links", links_document(&snapshot->links));
  document = with(document, "last_in_age_s", age_document(snapshot->last_in));
  document = with(document, "last_out_age_s", age_document(snapshot->last_out));
  document = with(document, "frames", frames_document(&snapshot->ledger));
  document = with(document, "dropped_last_minute", lately_document(snapshot->lately));
  /* `fps` is what `out_fps` is, under the name that it had before frames that come were counted apart. */
  document =
      with(document, "throughput",
           json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "in_fps", number(snapshot->in_fps), "out_fps", number(snapshot->out_fps),
                     "fps", number(snapshot->out_fps), "in_bytes_per_s", number(snapshot->in_bytes_per_s), "out_bytes_per_s",
                     number(snapshot->out_bytes_per_s), "window_s", number(snapshot->seconds)));
  document = with(document, "latency_us", latency_document(snapshot->latency));
  document = with(document, "slots", json_integer(snapshot->slots));
  document = with(document, "graph", json_boolean(snapshot->graph));
  const char *copies = !snapshot->copies ? "none" : snapshot->copies_by_kernel ? "kernel" : "engine";
  document = with(document, "copies", json_string(copies));
  document = with(document, "timed_one_in", json_integer(snapshot->timed_one_in));
  document = with(document, "overlap", overlap_document(snapshot));
  document = with(document, "model", model_document(snapshot));
  return with_ends(document, snapshot, config);
}

/* -- health ---------------------------------------------------------------------------------------------------------- */

static json_t *item_document(const struct health_item *item) {
  json_t *document = json_pack("{s:b, s:o}", "ok", item->ok, "why", answer_string(item->why));
  if (!item->ok) {
    document = with(document, "since_s", number(item->since_s));
    document = with(document, "count", count(item->count));
  }
  if (item->kind == HEALTH_LANES) {
    document = with(document, "age_s", number(item->age_s));
  }
  if (item->kind == HEALTH_DEVICE) {
    document = with(document, "canary_us", number(item->canary_s * 1e6));
    document = with(document, "canary_age_s", number(item->canary_age_s));
  }
  return document;
}

/* The key under which an item stands in its document; the lanes stand alone. */
static json_t *with_item(json_t *list, const struct health_item *item) { return with(list, item->name, item_document(item)); }

static json_t *degraded_document(const struct health *health) {
  static const char *const subjects[] = {[HEALTH_LANES] = "lanes",
                                         [HEALTH_DEVICE] = "device",
                                         [HEALTH_ABSENT] = "device",
                                         [HEALTH_PIPELINE] = "pipeline",
                                         [HEALTH_TROUBLE] = "pipeline"};
  json_t *list = json_array();
  for (unsigned i = 0; i < health->count; i++) {
    const struct health_item *item = &health->items[i];
    if (!item->ok) {
      json_array_append_new(list,
                            json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "subject", subjects[item->kind], "name",
                                      item->name, "reason", health_reason_names[item->reason], "text", answer_string(item->why),
                                      "since_s", number(item->since_s), "count", count(item->count), "remedy", item->remedy));
    }
  }
  return list;
}

json_t *health_document(const struct health *health, bool live_only) {
  json_t *lanes = NULL, *devices = json_object(), *pipelines = json_object();
  for (unsigned i = 0; i < health->count; i++) {
    const struct health_item *item = &health->items[i];
    if (item->kind == HEALTH_LANES) {
      lanes = item_document(item);
    } else if (item->kind == HEALTH_DEVICE || (item->kind == HEALTH_ABSENT && !live_only)) {
      devices = with_item(devices, item);
    } else if (item->kind == HEALTH_PIPELINE || (!live_only && item->kind == HEALTH_TROUBLE &&
                                                 json_is_true(json_object_get(json_object_get(pipelines, item->name), "ok")))) {
      pipelines = with_item(pipelines, item); /* the first trouble of a pipeline stands for it there */
    }
  }
  bool ok = live_only ? health->live : health->ok;
  json_t *document =
      json_pack("{s:b, s:o, s:{s:o}, s:o, s:o, s:o}", "ok", ok, "why", answer_string(ok ? "" : health->why), "control",
                "standstill_s", number(health->standstill_s), "lanes", lanes, "devices", devices, "pipelines", pipelines);
  if (!live_only) {
    document = with(document, "live", json_boolean(health->live));
    document = with(document, "degraded", degraded_document(health));
  }
  return document;
}

static json_t *usage_document(const struct status_ops *ops) {
  struct usage usage;
  ops->usage(ops->server, &usage);
  return json_pack("{s:o, s:o, s:o, s:o}", "resident_bytes", count(usage.resident_bytes), "pinned_bytes",
                   count(usage.pinned_bytes), "device_bytes", count(usage.device_bytes), "descriptors",
                   count(usage.descriptors));
}

/* Its workers so far. A device that is lost or left out has none that serves. */
static json_t *worker_document(const struct device_view *view) {
  const struct worker_history *workers = view->workers;
  bool serves = view->worker > 0;
  json_t *last = workers->gap == 0 ? json_null()
                                   : json_pack("{s:o, s:o, s:o}", "reason", answer_string(workers->text), "age_s",
                                               age_document(workers->stopped), "gap_ms", number((double)workers->gap / 1e6));
  json_t *standby =
      view->standby == 0 ? json_null() : json_pack("{s:o, s:s}", "pid", json_integer(view->standby), "state", view->standby_is);
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "pid", serves ? json_integer(view->worker) : json_null(), "generation",
                   count(workers->generation), "age_s", serves ? age_document(workers->since) : json_null(), "replaced",
                   count(workers->replaced), "last", last, "standby", standby);
}

static json_t *device_document(const struct device_view *view) {
  static const char *const keys[NVML_FIGURES] = {
      [NVML_LOAD] = "load",
      [NVML_MEMORY_USED] = "memory_used_bytes",
      [NVML_MEMORY_TOTAL] = "memory_total_bytes",
      [NVML_TEMPERATURE] = "temperature_celsius",
      [NVML_POWER] = "power_watts",
      [NVML_CLOCK] = "clock_hertz",
      [NVML_MEMORY_CLOCK] = "memory_clock_hertz",
  };
  json_t *document = json_pack("{s:s, s:b, s:s, s:i}", "name", view->name, "lost", view->lost, "state", view->state,
                               "producers", (int)view->producers);
  document = with(document, "worker", worker_document(view));
  if (view->since != 0) {
    document = with(document, "text", answer_string(view->text));
    document = with(document, "since_s", age_document(view->since));
  }
  for (int i = 0; i < NVML_FIGURES && view->figures; i++) {
    document = isfinite(view->figures[i]) ? with(document, keys[i], number(view->figures[i])) : document;
  }
  return document;
}

static void add_lack(json_t *lacks, const char *text) {
  if (text[0]) {
    json_array_append_new(lacks, answer_string(text));
  }
}

/* By their numbers. */
static json_t *devices_document(const struct status_ops *ops, unsigned total) {
  json_t *document = json_object();
  for (unsigned i = 0; i < total; i++) {
    struct device_view view;
    char number_text[16];
    ops->device(ops->server, i, &view);
    snprintf(number_text, sizeof number_text, "%u", view.number);
    document = with(document, number_text, device_document(&view));
  }
  return document;
}

/* -- all of it ------------------------------------------------------------------------------------------------------- */

/* How often one process image followed another, and the last time. */
static json_t *handovers_document(const struct server_view *view) {
  const struct history *history = view->history;
  json_t *document = json_pack("{s:b, s:o}", "upgrading", view->upgrading, "refused",
                               view->refusal ? answer_string(view->refusal) : json_null());
  for (int cause = 0; cause < HISTORY_CAUSE_COUNT; cause++) {
    document = with(document, history_names[cause], count(history->counts[cause]));
  }
  document = with(document, "connections_lost", count(history->closed));
  document = with(document, "longest_ms", number((double)history->longest / 1e6));
  document = with(document, "last",
                  history->gap == 0 ? json_null()
                                    : json_pack("{s:s, s:o, s:o, s:o}", "cause", history_names[history->cause], "age_s",
                                                age_document(history->stopped), "text", answer_string(history->text), "gap_ms",
                                                number((double)history->gap / 1e6)));
  return document;
}

json_t *status_document(const struct status_ops *ops, const struct viewer *viewer) {
  struct pipeline_snapshot *snapshot = malloc(sizeof *snapshot);
  if (!snapshot) {
    return NULL;
  }
  struct server_view view;
  ops->read(ops->server, &view);
  json_t *pipelines = json_object(), *hidden = json_object();
  struct health *health = ops->health(ops->server);
  for (unsigned i = 0; i < view.pipeline_count; i++) {
    struct pipeline *pipeline = ops->pipeline(ops->server, i);
    memset(snapshot, 0, sizeof *snapshot);
    pipeline_snapshot(pipeline, snapshot);
    if (viewer && !viewer_sees(viewer, pipeline_config(pipeline))) {
      hidden = with(
          hidden, snapshot->name,
          json_pack("{s:s, s:s}", "state", pipeline_state_names[snapshot->state], "condition", shown_state(health, snapshot)));
      continue;
    }
    pipelines = with(pipelines, snapshot->name, pipeline_document(snapshot, find_config(view.config, snapshot->name), health));
  }
  json_t *judged = health ? health_document(health, false) : NULL;
  free(health);
  free(snapshot);
  json_t *lacks = json_array();
  add_lack(lacks, view.lacks.shares);
  add_lack(lacks, view.lacks.models);
  json_t *http_refused = view.http_refusal ? answer_string(view.http_refusal) : json_null();
  return json_pack(
      "{s:s, s:o, s:s, s:s, s:o, s:o, s:i, s:b, s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o}", "version", view.version,
      "uptime_s", number(view.uptime_s), "backend", view.backend, "device", view.device, "devices",
      devices_document(ops, view.device_count), "lacks", lacks, "lanes", (int)view.lanes, "stopping", view.stopping,
      "http_refused", http_refused, "reloads", "done", count(view.reloads), "failed", count(view.reload_failures), "refused",
      view.reload_refusal ? answer_string(view.reload_refusal) : json_null(), "handovers", handovers_document(&view), "health",
      judged, "usage", usage_document(ops), "pipelines", pipelines, "hidden", hidden);
}

static json_t *with_interval(json_t *document, const struct past_sample *from, const struct past_sample *to, int64_t now) {
  double seconds = (double)(to->at - from->at) / (double)NS_PER_S;
  uint64_t out = to->fates[FATE_EMITTED] - from->fates[FATE_EMITTED];
  uint64_t dropped = 0;
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    dropped += to->fates[fate] - from->fates[fate];
  }
  json_t *interval =
      json_pack("[o, o, o, o, o]", number((double)(now - to->at) / (double)NS_PER_S),
                number((double)(to->in - from->in) / seconds), number((double)out / seconds), number(to->p99), count(dropped));
  return interval && json_array_append_new(document, interval) == 0 ? document : (json_decref(document), NULL);
}

json_t *past_document(const struct past *past, int64_t now) {
  json_t *intervals = json_array();
  for (unsigned n = 1; n < past->count && intervals; n++) {
    intervals = with_interval(intervals, past_at(past, n - 1), past_at(past, n), now);
  }
  return json_pack("{s:[s, s, s, s, s], s:o}", "columns", "age_s", "in_fps", "out_fps", "p99_us", "dropped", "intervals",
                   intervals);
}
