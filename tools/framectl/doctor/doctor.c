/*
 * `framectl doctor`: prints what limits the pipelines and which change would help, as the daemon reports it, and checks the
 * machine's settings. Exit status 2: something could be better.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/doctor/probes.h"
#include "tools/framectl/status/view.h"

struct examination {
  json_t *document;
  const char *only; /* a pipeline; NULL: all */
  struct findings findings;
  unsigned changes; /* pipelines that a change would help */
};

/* A change that is worth making. "Less work for a saturated engine" depends on what the user needs, so it does not count. */
static bool is_due(const struct overlap_view *overlap) {
  return strcmp(overlap->improve, "slots") == 0 || strcmp(overlap->improve, "spin") == 0 ||
         strcmp(overlap->improve, "graph") == 0 || strcmp(overlap->improve, "reader") == 0 ||
         strcmp(overlap->improve, "processors") == 0 || strcmp(overlap->improve, "instances") == 0;
}

typedef void visit_pipeline(struct examination *examination, const struct pipeline_view *view, void *context);

static void each_pipeline(struct examination *examination, visit_pipeline *visit, void *context) {
  const char *name;
  json_t *pipeline;
  json_object_foreach(json_object_get(examination->document, "pipelines"), name, pipeline) {
    if (!examination->only || strcmp(name, examination->only) == 0) {
      struct pipeline_view view;
      view_pipeline(name, pipeline, &view);
      visit(examination, &view, context);
    }
  }
}

/* -- examining ------------------------------------------------------------------------------------------------------------ */

static void count_change(struct examination *examination, const struct pipeline_view *view, void *context) {
  (void)context;
  examination->changes += is_due(&view->overlap);
}

/* `context` is the sum of the bytes of all slots of all clients. */
static void add_pinned(struct examination *examination, const struct pipeline_view *view, void *context) {
  (void)examination;
  *(uint64_t *)context += view->clients * view->slots * (view->source.frame_bytes + view->sink.frame_bytes);
}

/* A single stall can miss a few results. More than one in a hundred shows a slow reader. */
#define MISSED_SHARE 100

/* Replacements longer ago than an hour need no action any more. */
#define REPLACED_LATELY_S 3600

/*
 * Under `drop` the pipeline does not wait for readers, so no bound shows a slow one. The daemon's advice may have named it
 * already.
 */
static void examine_slow_readers(struct examination *examination, const struct pipeline_view *view) {
  uint64_t results = view->fates[FATE_EMITTED] + view->fates[FATE_UNREAD];
  bool is_said = strcmp(view->overlap.improve, "reader") == 0;
  if (!is_said && view->missed * MISSED_SHARE > results) {
    findings_add(&examination->findings, "results", VERDICT_BETTER,
                 "read them faster, take them in shared memory (protocol: native), or let sink: {overload: block} wait",
                 "%s does not wait for its readers: slow readers have missed %llu results, of %llu that there were", view->name,
                 (unsigned long long)view->missed, (unsigned long long)results);
  }
}

/* Frames whose results nobody reads waste the device's time, and no bound shows them. */
static void examine_results(struct examination *examination, const struct pipeline_view *view, void *context) {
  (void)context;
  if (view->readers > 0 && view->in_bytes_per_s > 0) {
    examine_slow_readers(examination, view);
  } else if (view->readers == 0 && view->in_bytes_per_s > 0 && view->fates[FATE_UNREAD] > 0) {
    findings_add(
        &examination->findings, "results", VERDICT_BETTER, "connect a reader, or let sink: {overload: block} wait for one",
        "%s has no reader: %llu results were dropped as unread", view->name, (unsigned long long)view->fates[FATE_UNREAD]);
  }
}

static void examine_client(struct examination *examination, const struct pipeline_view *view, void *context) {
  (void)context;
  if (view->not_read) {
    findings_add(&examination->findings, "results", VERDICT_BETTER,
                 "read results while frames are sent, as framectl push does, or give the sink a socket",
                 "a client of %s does not read its results", view->name);
  }
}

static void examine_refusals(struct examination *examination, const struct pipeline_view *view, void *context) {
  (void)context;
  char age[TEXT_ROOM];
  const struct refusal_view *refusal = &view->refusal;
  if (view_refused_lately(view)) {
    findings_add(&examination->findings, "clients", VERDICT_BETTER, refusal->remedy[0] ? refusal->remedy : NULL,
                 "%s turned %llu away, the last %s ago: %s", view->name, (unsigned long long)view->refused,
                 text_uptime(age, refusal->age_s), refusal->text);
  }
}

static const char *text_in(const json_t *entry, const char *key) {
  const char *text = json_string_value(json_object_get(entry, key));
  return text ? text : "";
}

/* Faults come before possible improvements. */
static void examine_health(struct examination *examination) {
  size_t at;
  json_t *entry;
  json_array_foreach(json_object_get(json_object_get(examination->document, "health"), "degraded"), at, entry) {
    const char *name = text_in(entry, "name"), *remedy = text_in(entry, "remedy");
    if (!examination->only || strcmp(name, examination->only) == 0) {
      findings_add(&examination->findings, "health", VERDICT_BAD, remedy[0] ? remedy : NULL, "%s%s%s: %s: %s",
                   text_in(entry, "subject"), name[0] ? " " : "", name, text_in(entry, "reason"), text_in(entry, "text"));
    }
  }
}

/* Features that the driver or the build lacks, as the daemon reports them. */
static void examine_lacks(struct examination *examination) {
  size_t at;
  json_t *entry;
  json_array_foreach(json_object_get(examination->document, "lacks"), at, entry) {
    const char *text = json_string_value(entry);
    findings_add(&examination->findings, "gpu", VERDICT_BETTER, NULL, "%s", text ? text : "");
  }
}

/* Its frames run again, but what ends a worker is a mistake or a lack that stays. */
static void examine_workers(struct examination *examination) {
  static const char remedy[] = "journalctl -u framed names the frames and stages that it had, journalctl -k a kill for lack of "
                               "memory: see FAULTS, UPGRADES AND RESTARTS in framed(8)";
  const char *number;
  json_t *device;
  json_object_foreach(json_object_get(examination->document, "devices"), number, device) {
    const json_t *worker = json_object_get(device, "worker"), *last = json_object_get(worker, "last");
    double age_s = json_number_value(json_object_get(last, "age_s"));
    long long replaced = json_integer_value(json_object_get(worker, "replaced"));
    char age[TEXT_ROOM];
    if (json_is_object(last) && age_s < REPLACED_LATELY_S) {
      findings_add(&examination->findings, "worker", VERDICT_BETTER, remedy,
                   "that of device %s was replaced %s ago (%lld time%s since the daemon's start): %s", number,
                   text_uptime(age, age_s), replaced, replaced == 1 ? "" : "s", text_in(last, "reason"));
    }
  }
}

static void examine_gpus(const struct probe *probe, const char *backend) {
  struct nvml_gpu gpus[NVML_GPUS];
  char why[NVML_TEXT];
  if (strcmp(backend, "cpu") == 0) {
    findings_add(probe->findings, "gpu", VERDICT_FINE, NULL, "the daemon uses none");
    return;
  }
  unsigned count = nvml_read(gpus, why);
  if (count == 0) {
    findings_add(probe->findings, "gpu", VERDICT_UNKNOWN, "run framectl on the daemon's machine, with the driver's libraries",
                 "%s", why);
  }
  for (unsigned i = 0; i < count; i++) {
    probe_gpu(probe, &gpus[i]);
  }
  if (count > 0) {
    probe_slots(probe, gpus, count);
  }
}

static void examine(struct examination *examination, const char *socket) {
  struct probe probe = {.root = "", .pid = daemon_pid(socket), .findings = &examination->findings};
  struct daemon_view daemon;
  uint64_t pinned = 0;
  view_daemon(examination->document, &daemon);
  examine_health(examination);
  each_pipeline(examination, count_change, NULL);
  each_pipeline(examination, add_pinned, &pinned);
  probe_governor(&probe);
  if (strcmp(daemon.backend, "cpu") != 0) { /* the CPU backend pins no memory */
    probe_memlock(&probe, pinned);
  }
  examine_gpus(&probe, daemon.backend);
  examine_lacks(examination);
  examine_workers(examination);
  /* Last, since the clients of hundreds of pipelines could fill the list of findings. */
  each_pipeline(examination, examine_results, NULL);
  each_pipeline(examination, examine_client, NULL);
  each_pipeline(examination, examine_refusals, NULL);
}

/* -- for people ---------------------------------------------------------------------------------------------------- */

static void print_pipeline(struct examination *examination, const struct pipeline_view *view, void *context) {
  (void)examination;
  const bool *colour = context;
  enum text_colour verdict = is_due(&view->overlap) ? COLOUR_YELLOW : COLOUR_GREEN;
  text_colour_begin(stdout, COLOUR_BOLD, *colour);
  printf("%s", view->name);
  text_colour_end(stdout, COLOUR_BOLD, *colour);
  if (strcmp(view->overlap.bound_by, "nothing") == 0) {
    printf(":\n  ");
  } else {
    printf(": bound by %s\n  ",
           view->overlap.bound_by[0] ? view->overlap.bound_by : "a limit that this daemon does not report");
  }
  text_colour_begin(stdout, verdict, *colour);
  printf("%s", view->overlap.advice);
  text_colour_end(stdout, verdict, *colour);
  printf("\n\n");
}

static bool print_findings(const struct findings *findings, bool colour) {
  static const enum text_colour colours[VERDICT_COUNT] = {COLOUR_GREEN, COLOUR_YELLOW, COLOUR_DIM, COLOUR_RED};
  struct table *table = table_new("CHECK|VERDICT|FOUND|WHAT TO DO");
  for (unsigned i = 0; table && i < findings->count; i++) {
    const struct finding *finding = &findings->items[i];
    table_cell(table, COLOUR_NONE, "%s", finding->check);
    table_cell(table, colours[finding->verdict], "%s", verdict_names[finding->verdict]);
    table_cell(table, COLOUR_NONE, "%s", finding->text);
    table_cell(table, COLOUR_NONE, "%s", finding->remedy ? finding->remedy : "-");
  }
  bool fine = table && table_print(table, stdout, "", colour);
  table_free(table);
  if (findings->left_out > 0) {
    printf("and %u more of other pipelines: `framectl doctor PIPELINE` has those of one\n", findings->left_out);
  }
  return fine;
}

/* -- for machines -------------------------------------------------------------------------------------------------- */

static void add_pipeline(struct examination *examination, const struct pipeline_view *view, void *context) {
  (void)examination;
  const struct overlap_view *overlap = &view->overlap;
  json_object_set_new(context, view->name,
                      json_pack("{s:s, s:s, s:s, s:f}", "bound_by", overlap->bound_by, "improve", overlap->improve, "advice",
                                overlap->advice, "gain", overlap->gain));
}

static bool print_json(struct examination *examination) {
  json_t *pipelines = json_object(), *machine = json_array();
  each_pipeline(examination, add_pipeline, pipelines);
  for (unsigned i = 0; i < examination->findings.count; i++) {
    const struct finding *finding = &examination->findings.items[i];
    json_array_append_new(machine,
                          json_pack("{s:s, s:s, s:s, s:s}", "check", finding->check, "verdict", verdict_names[finding->verdict],
                                    "found", finding->text, "remedy", finding->remedy ? finding->remedy : ""));
  }
  json_t *document =
      json_pack("{s:o, s:o, s:i}", "pipelines", pipelines, "machine", machine, "left_out", (int)examination->findings.left_out);
  bool fine = document && json_dumpf(document, stdout, TEXT_JSON) == 0;
  putchar('\n');
  json_decref(document);
  return fine;
}

/* -- the command --------------------------------------------------------------------------------------------------- */

static bool report(struct examination *examination, const struct invocation *invocation, struct problem *problem) {
  bool fine, colour = invocation->colour;
  if (invocation->json) {
    fine = print_json(examination);
  } else {
    each_pipeline(examination, print_pipeline, &colour);
    fine = print_findings(&examination->findings, colour);
  }
  if (!fine) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
  }
  if (examination->changes > 0 || findings_count(&examination->findings, VERDICT_BETTER) > 0 ||
      findings_count(&examination->findings, VERDICT_BAD) > 0) {
    problem_set(problem, EXIT_STATUS_FINDINGS, NULL, "something could be better");
    problem->is_said = true;
    return false;
  }
  return true;
}

bool command_doctor(const struct invocation *invocation, struct problem *problem) {
  struct examination examination = {.only = invocation->operand};
  struct pipeline_view view;
  examination.document = daemon_status(invocation->socket, DAEMON_PATIENCE_MS, problem);
  bool fine = examination.document && (!examination.only || view_find(examination.document, examination.only, &view, problem));
  if (fine) {
    examine(&examination, invocation->socket);
    fine = report(&examination, invocation, problem);
  }
  json_decref(examination.document);
  return fine;
}
