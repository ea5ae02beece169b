/* `framectl status`: all pipelines as one table, or one pipeline with its ledger and its frames' steps. */
#include <stdio.h>
#include <string.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/daemon.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/status/about.h"
#include "tools/framectl/status/camera.h"
#include "tools/framectl/status/clients.h"
#include "tools/framectl/status/status.h"
#include "tools/framectl/status/view.h"

static bool report_no_memory(struct problem *problem) { return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory"); }

static enum text_colour colour_of_state(const struct pipeline_view *view) {
  const char *state = view->state;
  if (strcmp(state, "running") == 0) {
    return COLOUR_GREEN;
  }
  return view->is_degraded || strcmp(state, "stopped") == 0 || strcmp(state, "failed") == 0 ? COLOUR_RED : COLOUR_YELLOW;
}

/* "late 1, unread 20", or "-". */
static void describe_drops(const struct pipeline_view *view, char *text, size_t room) {
  size_t length = 0;
  snprintf(text, room, "-");
  for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT && length < room; fate++) {
    if (view->fates[fate] > 0) {
      int added = snprintf(text + length, room - length, "%s%s %llu", length > 0 ? ", " : "", fate_names[fate],
                           (unsigned long long)view->fates[fate]);
      length += added > 0 ? (size_t)added : 0;
    }
  }
}

/* -- clients and errors --------------------------------------------------------------------------------------------- */

static const char *string_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* Prints a line for each error that still holds. */
static void print_errors(FILE *out, const char *before, const json_t *pipeline, bool colour) {
  const char *where;
  json_t *error;
  json_object_foreach(json_object_get(pipeline, "errors"), where, error) {
    char since[TEXT_ROOM], last[TEXT_ROOM];
    if (!json_is_object(error)) {
      continue;
    }
    text_colour_begin(out, COLOUR_RED, colour);
    fprintf(out, "%serror of the %s, for %s, %lld times, the last %s ago: %s", before, where,
            text_age(since, json_number_value(json_object_get(error, "since_s"))),
            json_integer_value(json_object_get(error, "count")),
            text_age(last, json_number_value(json_object_get(error, "age_s"))), string_of(error, "text"));
    text_colour_end(out, COLOUR_RED, colour);
    fprintf(out, "%s%s\n", string_of(error, "remedy")[0] ? "; " : "", string_of(error, "remedy"));
  }
}

/* Prints a line for each link of the pipeline to a broker: `all` links, or only those with trouble. */
static void print_links(FILE *out, const char *before, const json_t *pipeline, bool all, bool colour) {
  const char *role;
  json_t *link;
  json_object_foreach(json_object_get(pipeline, "links"), role, link) {
    bool connected = json_is_true(json_object_get(link, "connected"));
    bool well = connected && !json_is_true(json_object_get(link, "warns"));
    const char *error = json_string_value(json_object_get(link, "error"));
    const json_t *queue = json_object_get(link, "queue");
    char age[TEXT_ROOM];
    if (well && !all) {
      continue;
    }
    fputs(before, out);
    text_colour_begin(out, well ? COLOUR_NONE : COLOUR_RED, colour);
    fprintf(out, "link (%s): %s for %s", role, connected ? "has its broker" : "its broker is unreachable",
            text_uptime(age, json_number_value(json_object_get(link, "since_s"))));
    text_colour_end(out, well ? COLOUR_NONE : COLOUR_RED, colour);
    if (queue) {
      fprintf(out, ", %lld frames in its queue (the oldest for %s)",
              (long long)json_integer_value(json_object_get(queue, "depth")),
              text_uptime(age, json_number_value(json_object_get(queue, "oldest_s"))));
    }
    fprintf(out, ", %lld unacknowledged%s%s\n", (long long)json_integer_value(json_object_get(link, "unacknowledged")),
            !error ? ""
            : well ? "; last error: "
                   : ": ",
            error ? error : "");
  }
}

/* -- all pipelines ------------------------------------------------------------------------------------------------- */

static void add_row(struct table *table, const struct pipeline_view *view) {
  char text[TEXT_ROOM], drops[256];
  const struct latency_view *total = &view->latency[STEP_TOTAL];
  table_cell(table, COLOUR_BOLD, "%s", view->name);
  table_cell(table, colour_of_state(view), "%s", view->state);
  table_cell(table, COLOUR_NONE, "%s", strcmp(view->waiting, "nothing") == 0 ? "-" : view->waiting);
  table_cell(table, COLOUR_NONE, "%llu", (unsigned long long)view->fates[FATE_EMITTED]);
  table_cell(table, COLOUR_NONE, "%s", text_rate(text, view->in_fps));
  table_cell(table, COLOUR_NONE, "%s", text_rate(text, view->out_fps));
  table_cell(table, COLOUR_NONE, "%s/s", text_bytes(text, view->in_bytes_per_s));
  table_cell(table, COLOUR_NONE, "%s/s", text_bytes(text, view->out_bytes_per_s));
  table_cell(table, view->is_silent ? COLOUR_RED : COLOUR_NONE, "%s", text_age(text, view->last_in_s));
  table_cell(table, COLOUR_NONE, "%s", total->count ? text_duration(text, total->p50) : "-");
  table_cell(table, COLOUR_NONE, "%s", total->count ? text_duration(text, total->p99) : "-");
  table_cell(table, COLOUR_NONE, "%s", view->overlap.bound_by[0] ? view->overlap.bound_by : "-");
  describe_drops(view, drops, sizeof drops);
  table_cell(table, view_dropped(view) ? COLOUR_RED : COLOUR_NONE, "%s", drops);
}

/* Clients see the reason only once, so status repeats the last one. */
static void print_refusal(FILE *out, const char *before, const struct pipeline_view *view, bool colour) {
  char age[TEXT_ROOM];
  const struct refusal_view *refusal = &view->refusal;
  if (!view_refused_lately(view)) {
    return;
  }
  text_colour_begin(out, COLOUR_YELLOW, colour);
  fprintf(out, "%slast refusal of %llu, %s ago: %s%s%s", before, (unsigned long long)view->refused,
          text_uptime(age, refusal->age_s), refusal->text, refusal->remedy[0] ? "; " : "", refusal->remedy);
  text_colour_end(out, COLOUR_YELLOW, colour);
  fputc('\n', out);
}

static void print_refusals(json_t *document, bool colour) {
  const char *name;
  json_t *pipeline;
  json_object_foreach(json_object_get(document, "pipelines"), name, pipeline) {
    struct pipeline_view view;
    char before[TEXT_ROOM + 8];
    view_pipeline(name, pipeline, &view);
    snprintf(before, sizeof before, "%.64s: ", name);
    print_errors(stdout, before, pipeline, colour);
    camera_print(stdout, before, pipeline, true, colour);
    print_links(stdout, before, pipeline, false, colour);
    print_refusal(stdout, before, &view, colour);
  }
}

static void print_hidden(const json_t *document) {
  const char *name;
  json_t *pipeline, *hidden = json_object_get(document, "hidden");
  json_object_foreach(hidden, name, pipeline) {
    const char *state = json_string_value(json_object_get(pipeline, "condition"));
    printf("%s: %s; more is shown to users who may connect to its sockets\n", name, state ? state : "unknown");
  }
}

static bool print_all(json_t *document, bool colour, struct problem *problem) {
  struct table *table =
      table_new("PIPELINE|STATE|WAITS FOR|>EMITTED|>FPS IN|>FPS OUT|>IN|>OUT|>LAST IN|>P50|>P99|BOUND BY|DROPPED");
  if (!table) {
    return report_no_memory(problem);
  }
  const char *name;
  json_t *pipeline;
  json_object_foreach(json_object_get(document, "pipelines"), name, pipeline) {
    struct pipeline_view view;
    view_pipeline(name, pipeline, &view);
    add_row(table, &view);
  }
  about_print(document, colour);
  bool fine = table_print(table, stdout, "", colour);
  table_free(table);
  print_refusals(document, colour);
  print_hidden(document);
  return fine || report_no_memory(problem);
}

/* -- one pipeline --------------------------------------------------------------------------------------------------- */

static void print_end(FILE *out, const char *label, const struct end_view *end) {
  char bytes[TEXT_ROOM];
  fprintf(out, "  %-8s  ", label);
  if (end->reply) {
    fprintf(out, "reply to the producer");
  } else {
    const char *path = end->socket ? end->socket : end->url ? end->url : end->file ? end->file : "unknown";
    fprintf(out, "%s %s", end->socket ? "socket" : end->url ? "url" : "file", path);
  }
  fprintf(out, ", %s, %s, %s a frame\n", end->protocol, end->format, text_bytes(bytes, (double)end->frame_bytes));
}

static void print_waiting(FILE *out, const struct pipeline_view *view) {
  if (view->not_read) {
    fprintf(out, ", waits for reader: its client does not read its results\n");
  } else if (strcmp(view->waiting, "nothing") == 0) {
    fputs(strcmp(view->state, "waiting") == 0 ? "\n" : ", frames move\n", out);
  } else {
    fprintf(out, ", waits for %s\n", view->waiting);
  }
}

static void print_pipeline(FILE *out, const struct pipeline_view *view, const json_t *pipeline, bool colour) {
  char rate[TEXT_ROOM], out_rate[TEXT_ROOM], in[TEXT_ROOM], gone[TEXT_ROOM];
  text_colour_begin(out, COLOUR_BOLD, colour);
  fprintf(out, "%s", view->name);
  text_colour_end(out, COLOUR_BOLD, colour);
  fprintf(out, ": ");
  text_colour_begin(out, colour_of_state(view), colour);
  fprintf(out, "%s", view->state);
  text_colour_end(out, colour_of_state(view), colour);
  print_waiting(out, view);
  print_end(out, "source", &view->source);
  camera_print(out, "  ", pipeline, false, colour);
  print_end(out, "sink", &view->sink);
  fprintf(out, "  clients   producers: %llu of %llu, readers: %llu; refused: %llu, results missed by slow readers: %llu\n",
          (unsigned long long)view->sessions, (unsigned long long)view->clients, (unsigned long long)view->readers,
          (unsigned long long)view->refused, (unsigned long long)view->missed);
  print_refusal(out, "            ", view, colour);
  fprintf(out, "  rate      in %s frames/s, %s/s; out %s frames/s, %s/s; over %.2g s\n", text_rate(rate, view->in_fps),
          text_bytes(in, view->in_bytes_per_s), text_rate(out_rate, view->out_fps), text_bytes(gone, view->out_bytes_per_s),
          view->window_s);
  fprintf(out, "  last      frame in %s, out %s ago\n", text_age(in, view->last_in_s), text_age(gone, view->last_out_s));
}

/* Prints how frames reach the device, unless each step has a time of its own. */
static void print_device(FILE *out, const struct pipeline_view *view) {
  if (view->copies_by_kernel && view->timed_one_in == 0) {
    fprintf(out, "  device    a resident kernel copies and computes the frames; their steps there have no times\n");
    return;
  }
  if (view->graph || view->timed_one_in > 1) {
    fprintf(out, "  device    ");
    fputs(view->graph ? "frames are replayed from CUDA graphs" : "frames go step by step", out);
    fputs(view->copies_by_kernel ? ", whose kernels copy them" : "", out);
    if (view->timed_one_in > 1) {
      fprintf(out, ", one in %llu has times", (unsigned long long)view->timed_one_in);
    }
    fputc('\n', out);
  }
}

static void print_overlap(FILE *out, const struct overlap_view *overlap) {
  const char *when = strcmp(overlap->bound_by, "source") == 0 ? ", which matters only when frames come faster" : "";
  if (overlap->speedup > 0 && overlap->ratio <= 0) {
    fprintf(out, "  overlap   none: no work of the device is hidden behind other work; at best %.2f times as fast%s\n",
            overlap->ideal_speedup, when);
  } else if (overlap->speedup > 0) {
    fprintf(out,
            "  overlap   %.2f times as fast as one after the other, %.2f at best; %.1f %% of the device's work is hidden%s\n",
            overlap->speedup, overlap->ideal_speedup, overlap->ratio * 100, when);
  }
  if (strcmp(overlap->bound_by, "nothing") == 0) {
    fprintf(out, "  bound     %s\n", overlap->advice);
  } else if (overlap->bound_by[0]) {
    fprintf(out, "  bound     by %s: %s\n", overlap->bound_by, overlap->advice);
  }
}

static void print_model(FILE *out, const struct model_view *model) {
  if (model->file[0]) {
    fprintf(out, "  model     %s; frames of its instances:", model->file);
    for (unsigned i = 0; i < model->instances; i++) {
      fprintf(out, "%s %llu", i > 0 ? "," : "", (unsigned long long)model->served[i]);
    }
    if (model->batches > 0) {
      fprintf(out, "; %.1f frames a batch", (double)model->batched / (double)model->batches);
    }
    fputc('\n', out);
  }
}

static void add_frames(struct table *table, enum text_colour colour, const char *what, uint64_t count, const char *meaning) {
  table_cell(table, colour, "%s", what);
  table_cell(table, colour, "%llu", (unsigned long long)count);
  table_cell(table, COLOUR_DIM, "%s", meaning);
}

static struct table *ledger_table(const struct pipeline_view *view) {
  struct table *table = table_new("FRAMES|>COUNT|MEANING");
  if (table) {
    add_frames(table, COLOUR_NONE, "in", view->in, "their first byte came");
    add_frames(table, COLOUR_NONE, fate_names[FATE_EMITTED], view->fates[FATE_EMITTED], fate_meanings[FATE_EMITTED]);
    for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
      if (view->fates[fate] > 0) {
        add_frames(table, COLOUR_RED, fate_names[fate], view->fates[fate], fate_meanings[fate]);
      }
    }
    add_frames(table, COLOUR_NONE, "in flight", view->in_flight, "no fate yet");
  }
  return table;
}

static struct table *latency_table(const struct pipeline_view *view) {
  struct table *table = table_new("STEP|>P50|>P99|>P99.9|>MAX|MEANING");
  for (int step = 0; table && step < STEP_COUNT; step++) {
    const struct latency_view *latency = &view->latency[step];
    if (step == STEP_MODEL && latency->count == 0) {
      continue; /* most pipelines do not have this step */
    }
    const double values[] = {latency->p50, latency->p99, latency->p999, latency->max};
    table_cell(table, step == STEP_TOTAL ? COLOUR_BOLD : COLOUR_NONE, "%s", step_names[step]);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
      char text[TEXT_ROOM];
      table_cell(table, COLOUR_NONE, "%s", latency->count ? text_duration(text, values[i]) : "-");
    }
    table_cell(table, COLOUR_DIM, "%s", step_help[step]);
  }
  return table;
}

bool status_print_one(FILE *out, json_t *document, const char *name, bool colour, struct problem *problem) {
  struct pipeline_view view;
  if (!view_find(document, name, &view, problem)) {
    return false;
  }
  const json_t *pipeline = json_object_get(json_object_get(document, "pipelines"), name);
  struct table *ledger = ledger_table(&view), *latency = latency_table(&view);
  bool fine = ledger && latency;
  if (fine) {
    print_pipeline(out, &view, pipeline, colour);
    print_device(out, &view);
    print_overlap(out, &view.overlap);
    print_model(out, &view.model);
    print_links(out, "  ", pipeline, true, colour);
    print_errors(out, "  ", pipeline, colour);
    fputc('\n', out);
    fine = clients_print(out, pipeline, colour);
    fine = table_print(ledger, out, "  ", colour) && fine;
    fputc('\n', out);
    fine = table_print(latency, out, "  ", colour) && fine;
  }
  table_free(ledger);
  table_free(latency);
  return fine || report_no_memory(problem);
}

static bool print_json(json_t *document, const char *name, struct problem *problem) {
  struct pipeline_view view;
  if (name && !view_find(document, name, &view, problem)) {
    return false;
  }
  json_t *part = name ? json_object_get(json_object_get(document, "pipelines"), name) : document;
  json_dumpf(part, stdout, TEXT_JSON);
  putchar('\n');
  return true;
}

bool command_status(const struct invocation *invocation, struct problem *problem) {
  json_t *document = daemon_status(invocation->socket, DAEMON_PATIENCE_MS, problem);
  if (!document) {
    return false;
  }
  bool fine;
  if (invocation->json) {
    fine = print_json(document, invocation->operand, problem);
  } else if (invocation->operand) {
    fine = status_print_one(stdout, document, invocation->operand, invocation->colour, problem);
  } else {
    fine = print_all(document, invocation->colour, problem);
  }
  json_decref(document);
  return fine;
}
