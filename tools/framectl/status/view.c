#include "tools/framectl/status/view.h"

#include <stdio.h>
#include <string.h>

#include "daemon/measure/history.h"

#define LATELY_S 600.0

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static uint64_t count_of(const json_t *object, const char *key) {
  json_int_t value = json_integer_value(json_object_get(object, key));
  return value > 0 ? (uint64_t)value : 0;
}

static double number_of(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static double age_of(const json_t *object, const char *key) {
  const json_t *age = json_object_get(object, key);
  return json_is_number(age) ? json_number_value(age) : -1;
}

static const char *const causes[HISTORY_CAUSE_COUNT] = {
#define X(name, text, meaning) text,
    HISTORY_CAUSES(X)
#undef X
};

static uint64_t count_handovers(const json_t *handovers) {
  uint64_t total = 0;
  for (int cause = 0; cause < HISTORY_CAUSE_COUNT; cause++) {
    total += count_of(handovers, causes[cause]);
  }
  return total;
}

static struct handovers_view view_handovers(const json_t *handovers) {
  const json_t *last = json_object_get(handovers, "last");
  return (struct handovers_view){.total = count_handovers(handovers),
                                 .upgrades = count_of(handovers, "upgrade"),
                                 .cause = text_of(last, "cause"),
                                 .text = text_of(last, "text"),
                                 .gap_ms = number_of(last, "gap_ms"),
                                 .longest_ms = number_of(handovers, "longest_ms"),
                                 .connections_lost = count_of(handovers, "connections_lost"),
                                 .upgrading = json_is_true(json_object_get(handovers, "upgrading")),
                                 .refused = text_of(handovers, "refused")};
}

const char *view_causes(const json_t *document, char *text, size_t room) {
  const json_t *handovers = json_object_get(document, "handovers");
  size_t length = 0;
  text[0] = '\0';
  for (int cause = 0; cause < HISTORY_CAUSE_COUNT && length < room; cause++) {
    uint64_t count = count_of(handovers, causes[cause]);
    if (count > 0) {
      int added =
          snprintf(text + length, room - length, "%s%s %llu", length > 0 ? ", " : "", causes[cause], (unsigned long long)count);
      length += added > 0 ? (size_t)added : 0;
    }
  }
  return text;
}

void view_daemon(const json_t *document, struct daemon_view *view) {
  *view = (struct daemon_view){.version = text_of(document, "version"),
                               .backend = text_of(document, "backend"),
                               .device = text_of(document, "device"),
                               .uptime_s = number_of(document, "uptime_s"),
                               .lanes = count_of(document, "lanes"),
                               .http_refused = text_of(document, "http_refused"),
                               .reload_refused = text_of(json_object_get(document, "reloads"), "refused"),
                               .handovers = view_handovers(json_object_get(document, "handovers"))};
}

static struct end_view view_end(const json_t *end, const char *format) {
  return (struct end_view){.socket = json_string_value(json_object_get(end, "socket")),
                           .file = json_string_value(json_object_get(end, "file")),
                           .url = json_string_value(json_object_get(end, "url")),
                           .reply = json_is_true(json_object_get(end, "reply")),
                           .protocol = text_of(end, "protocol"),
                           .format = format,
                           .frame_bytes = count_of(end, "frame_bytes")};
}

static void view_frames(const json_t *frames, struct pipeline_view *view) {
  const json_t *dropped = json_object_get(frames, "dropped");
  view->in = count_of(frames, "in");
  view->in_flight = count_of(frames, "in_flight");
  view->fates[FATE_EMITTED] = count_of(frames, "emitted");
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    view->fates[fate] = count_of(dropped, fate_names[fate]);
  }
}

static void view_latency(const json_t *steps, struct pipeline_view *view) {
  for (int step = 0; step < STEP_COUNT; step++) {
    const json_t *summary = json_object_get(steps, step_names[step]);
    view->latency[step] = (struct latency_view){.p50 = number_of(summary, "p50"),
                                                .p99 = number_of(summary, "p99"),
                                                .p999 = number_of(summary, "p999"),
                                                .max = number_of(summary, "max"),
                                                .mean = number_of(summary, "mean"),
                                                .count = count_of(summary, "count")};
  }
}

static double number_in(const json_t *list, size_t index) { return json_number_value(json_array_get(list, index)); }

static struct overlap_view view_overlap(const json_t *overlap) {
  const json_t *service = json_object_get(overlap, "service_us"), *succession = json_object_get(overlap, "succession_us");
  return (struct overlap_view){.ratio = number_of(overlap, "ratio"),
                               .speedup = number_of(overlap, "speedup"),
                               .ideal_speedup = number_of(overlap, "ideal_speedup"),
                               .gain = number_of(overlap, "gain"),
                               .has_services = service != NULL,
                               .service_us = {number_in(service, 0), number_in(service, 1), number_in(service, 2)},
                               .succession_us = {number_in(succession, 0), number_in(succession, 1), number_in(succession, 2)},
                               .alone_us = number_of(overlap, "alone_us"),
                               .host_us = number_of(overlap, "host_us"),
                               .turnaround_us = number_of(overlap, "turnaround_us"),
                               .bound_by = text_of(overlap, "bound_by"),
                               .advice = text_of(overlap, "advice"),
                               .improve = text_of(overlap, "improve"),
                               .slots = count_of(overlap, "slots"),
                               .devices = count_of(overlap, "devices"),
                               .kernels_at_once = count_of(overlap, "kernels_at_once")};
}

static struct refusal_view view_refusal(const json_t *refusal) {
  return (struct refusal_view){
      .text = text_of(refusal, "text"), .remedy = text_of(refusal, "remedy"), .age_s = number_of(refusal, "age_s")};
}

static struct model_view view_model(const json_t *model) {
  const json_t *instances = json_object_get(model, "instances");
  struct model_view view = {.file = text_of(model, "file")};
  for (size_t i = 0; i < json_array_size(instances) && i < VIEW_MOST_INSTANCES; i++) {
    view.served[view.instances++] = (uint64_t)json_integer_value(json_array_get(instances, i));
  }
  const json_t *batches = json_object_get(model, "batches");
  for (size_t i = 0; i < json_array_size(batches); i++) {
    uint64_t count = (uint64_t)json_integer_value(json_array_get(batches, i));
    view.batches += count;
    view.batched += count * (i + 1);
  }
  return view;
}

void view_pipeline(const char *name, const json_t *document, struct pipeline_view *view) {
  const json_t *formats = json_object_get(document, "formats"), *throughput = json_object_get(document, "throughput");
  *view = (struct pipeline_view){.name = name,
                                 .state = text_of(document, json_object_get(document, "condition") ? "condition" : "state"),
                                 .waiting = text_of(document, "waiting"),
                                 .slots = count_of(document, "slots"),
                                 .is_degraded = json_object_get(document, "condition") &&
                                                strcmp(text_of(document, "condition"), text_of(document, "state")) != 0,
                                 .is_silent = json_is_object(json_object_get(document, "silent")),
                                 .graph = json_is_true(json_object_get(document, "graph")),
                                 .copies_by_kernel = strcmp(text_of(document, "copies"), "kernel") == 0,
                                 .timed_one_in = count_of(document, "timed_one_in"),
                                 .sessions = count_of(document, "sessions"),
                                 .clients = count_of(document, "clients"),
                                 .readers = count_of(document, "readers"),
                                 .missed = count_of(document, "missed"),
                                 .not_read = json_is_true(json_object_get(document, "not_read")),
                                 .refused = count_of(document, "refused"),
                                 .refusal = view_refusal(json_object_get(document, "last_refusal")),
                                 .source = view_end(json_object_get(document, "source"), text_of(formats, "input")),
                                 .sink = view_end(json_object_get(document, "sink"), text_of(formats, "output")),
                                 .in_fps = number_of(throughput, "in_fps"),
                                 .out_fps = number_of(throughput, "out_fps"),
                                 .last_in_s = age_of(document, "last_in_age_s"),
                                 .last_out_s = age_of(document, "last_out_age_s"),
                                 .in_bytes_per_s = number_of(throughput, "in_bytes_per_s"),
                                 .out_bytes_per_s = number_of(throughput, "out_bytes_per_s"),
                                 .window_s = number_of(throughput, "window_s"),
                                 .overlap = view_overlap(json_object_get(document, "overlap")),
                                 .model = view_model(json_object_get(document, "model"))};
  view_frames(json_object_get(document, "frames"), view);
  view_latency(json_object_get(document, "latency_us"), view);
}

static bool report_unknown(json_t *pipelines, const char *name, struct problem *problem) {
  char names[512] = "";
  size_t length = 0;
  const char *key;
  json_t *value;
  json_object_foreach(pipelines, key, value) {
    int added = snprintf(names + length, sizeof names - length, "%s%s", length > 0 ? ", " : "there are: ", key);
    if (added < 0 || (size_t)added >= sizeof names - length) {
      break;
    }
    length += (size_t)added;
  }
  return problem_set(problem, EXIT_STATUS_REFUSED, length > 0 ? names : "the configuration has no pipeline",
                     "there is no pipeline '%s'", name);
}

bool view_find(json_t *document, const char *name, struct pipeline_view *view, struct problem *problem) {
  json_t *pipelines = json_object_get(document, "pipelines"), *pipeline = json_object_get(pipelines, name);
  if (!pipeline) {
    return report_unknown(pipelines, name, problem);
  }
  view_pipeline(json_object_iter_key(json_object_iter_at(pipelines, name)), pipeline, view);
  return true;
}

bool view_refused_lately(const struct pipeline_view *view) {
  return view->refusal.text[0] != '\0' && view->refusal.age_s < LATELY_S;
}

uint64_t view_dropped(const struct pipeline_view *view) {
  uint64_t sum = 0;
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    sum += view->fates[fate];
  }
  return sum;
}
