#include "tools/framectl/doctor/plan_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "tools/framectl/common/forecast.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/doctor/timeline.h"

enum { MOST_SLOTS = 8, MOST_JSON_FRAMES = 64 };

/* The limit for any number of slots, in the words of status and doctor. */
static const char *bound_name(const struct plan_request *request) {
  const struct overlap_work *work = &request->work;
  bool by_host = work->host > 0 && work->host >= overlap_period(work);
  bool by_model = overlap_longest(work) == OVERLAP_KERNEL && request->model_us > work->service[OVERLAP_KERNEL] / 2;
  return by_host ? "host" : by_model ? "model" : overlap_engine_keys[overlap_longest(work)];
}

/* -- for people ----------------------------------------------------------------------------------------------------------- */

static const char *unit_of(const struct plan_request *request) { return request->is_cut ? "chunk" : "frame"; }

/* True if so many kernels or copies run at once that the number of slots is the only limit. */
static bool runs_side_by_side(const struct overlap_work *work, int engine) {
  return work->succession[engine] > 0 && work->succession[engine] * (OVERLAP_MAX_SLOTS - 1) < work->service[engine];
}

/* The plan covers the device and its host. The pipeline may wait for something else, as status and doctor report. */
static void print_bound_now(FILE *out, const struct plan_request *request) {
  bool outside = strcmp(request->bound_by, "source") == 0 || strcmp(request->bound_by, "reader") == 0;
  if (request->bound_by[0]) {
    fprintf(out, "(now it is bound by %s%s)\n\n", request->bound_by,
            outside ? "; the plan assumes that frames are always available and results always read" : "");
  }
}

static void print_model(FILE *out, const struct plan_request *request) {
  char part[TEXT_ROOM], run[TEXT_ROOM];
  if (request->model_us <= 0) {
    return;
  }
  fprintf(out, "(the model takes %s of the kernel's time", text_duration(part, request->model_us));
  if (request->batched >= 1.05) { /* smaller values are printed as 1.0 */
    fprintf(out, ", its part of a batch: %.1f frames in %s", request->batched, text_duration(run, request->run_us));
  }
  fputs(")\n\n", out);
}

static void print_work(FILE *out, const struct plan_request *request) {
  const struct overlap_work *work = &request->work;
  char text[TEXT_ROOM];
  if (request->measured) {
    fprintf(out, "%s, measured: ", request->measured);
  }
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    fprintf(out, "%s %s", overlap_engine_titles[engine], text_duration(text, work->service[engine]));
    if (runs_side_by_side(work, engine)) {
      fputs(" (beside others)", out);
    } else if (work->succession[engine] > 0) {
      fprintf(out, " (one every %s)", text_duration(text, work->succession[engine]));
    }
    fputs(", ", out);
  }
  if (work->turnaround > 0) {
    fprintf(out, "turnaround %s, ", text_duration(text, work->turnaround));
  }
  if (work->alone > 0) {
    fprintf(out, "all together %s with one slot, ", text_duration(text, work->alone));
  }
  if (work->host > 0) {
    fprintf(out, "host %s", text_duration(text, work->host));
    if (work->turnaround < 0) {
      fprintf(out, " (%s of it beside a copy in)", text_duration(text, -work->turnaround));
    }
    fputs(", ", out);
  }
  fprintf(out, "each of %" PRIu64 " %s%s on %u slot%s\n\n", request->frames, unit_of(request), request->frames == 1 ? "" : "s",
          work->slots, work->slots == 1 ? "" : "s");
  if (request->kept_free > 0) {
    fprintf(out, "(of the pipeline's %u slots %s keeps %u for newer frames, so %u work%s)\n\n",
            work->slots + request->kept_free, request->keeper, request->kept_free, work->slots, work->slots == 1 ? "s" : "");
  }
  print_model(out, request);
  print_bound_now(out, request);
}

static bool print_timeline(FILE *out, const struct plan_request *request, unsigned columns, bool colour) {
  uint64_t shown = timeline_frames(&request->work, request->frames, columns);
  if (!timeline_draw(out, &request->work, shown, columns, colour)) {
    return false;
  }
  fprintf(out, "a digit is the %s that is served", unit_of(request));
  fprintf(out, shown < request->frames ? "; the first %" PRIu64 " of %" PRIu64 " %ss\n\n" : "\n\n", shown, request->frames,
          unit_of(request));
  return true;
}

static void print_slots_for_bound(FILE *out, const struct forecast_plan *plan) {
  if (plan->slots_for_bound == 0) {
    fprintf(out, "not reached with %d slots", OVERLAP_MAX_SLOTS);
  } else {
    fprintf(out, "reached with %u slot%s", plan->slots_for_bound, plan->slots_for_bound == 1 ? "" : "s");
  }
}

static void print_verdict(FILE *out, const struct plan_request *request, const struct forecast_plan *plan) {
  char wall[TEXT_ROOM], serial[TEXT_ROOM], bound[TEXT_ROOM];
  if (request->work.slots == 1) {
    fprintf(out, "%s: one slot takes one %s after the other, so that no work is hidden behind other work\n",
            text_duration(wall, plan->wall), unit_of(request));
  } else {
    fprintf(out, "%s against %s, %.2f times as fast; %.1f %% of the engines' work is hidden behind other work\n",
            text_duration(wall, plan->wall), text_duration(serial, plan->serial), plan->speedup, plan->ratio * 100);
  }
  fprintf(out, "bound: %s, %.2f times, by %s, ", text_duration(bound, plan->bound), plan->bound_speedup, bound_name(request));
  print_slots_for_bound(out, plan);
  fputc('\n', out);
  if (request->work.slots > 1 && plan->slots_for_bound != 1 && request->work.slots < plan->slots_for_bound) {
    fprintf(out, "(A slot's next copy in waits for its last copy out. Textbooks that leave this out quote the bound for %s.)\n",
            request->work.slots == 2 ? "two streams" : "fewer streams");
  }
}

static void add_slots(struct table *table, const struct plan_request *request, unsigned slots) {
  char text[TEXT_ROOM];
  struct overlap_work work = request->work;
  work.slots = slots;
  double wall = forecast_wall(&work, request->frames), frames = (double)request->frames;
  double hidden = overlap_ratio(wall, frames * overlap_sum(&work));
  enum text_colour colour = slots == request->work.slots ? COLOUR_BOLD : COLOUR_NONE;
  table_cell(table, colour, "%s%u", slots == request->work.slots ? "* " : "", slots);
  table_cell(table, colour, "%s", text_duration(text, wall));
  table_cell(table, colour, "%s", text_duration(text, wall / frames));
  table_cell(table, colour, "%s", wall > 0 ? text_rate(text, frames * 1e6 / wall) : "-");
  work.slots = 1;
  table_cell(table, colour, "%.2f", wall > 0 ? forecast_wall(&work, request->frames) / wall : 1);
  table_cell(table, colour, "%.1f %%", hidden * 100);
}

static bool print_slots(FILE *out, const struct plan_request *request, bool colour) {
  struct table *table = table_new(request->is_cut ? ">SLOTS|>TIME|>A CHUNK|>CHUNKS/S|>TIMES AS FAST|>HIDDEN"
                                                  : ">SLOTS|>TIME|>A FRAME|>FRAMES/S|>TIMES AS FAST|>HIDDEN");
  for (unsigned slots = 1; table && slots <= MOST_SLOTS; slots++) {
    add_slots(table, request, slots);
  }
  if (table && request->work.slots > MOST_SLOTS) {
    add_slots(table, request, request->work.slots);
  }
  bool fine = table && table_print(table, out, "", colour);
  table_free(table);
  return fine;
}

bool plan_report_text(FILE *out, const struct plan_request *request, unsigned columns, bool colour) {
  struct forecast_plan plan = forecast_plan(&request->work, request->frames);
  print_work(out, request);
  if (!print_timeline(out, request, columns, colour)) {
    return false;
  }
  print_verdict(out, request, &plan);
  fputc('\n', out);
  return print_slots(out, request, colour);
}

/* -- for machines -------------------------------------------------------------------------------------------------- */

static json_t *work_json(const struct plan_request *request) {
  const struct overlap_work *work = &request->work;
  return json_pack("{s:f, s:f, s:f, s:f, s:f, s:[f, f, f], s:f, s:i, s:i, s:I}", "h2d_us", work->service[OVERLAP_H2D],
                   "kernel_us", work->service[OVERLAP_KERNEL], "d2h_us", work->service[OVERLAP_D2H], "turnaround_us",
                   work->turnaround, "host_us", work->host, "succession_us", work->succession[OVERLAP_H2D],
                   work->succession[OVERLAP_KERNEL], work->succession[OVERLAP_D2H], "alone_us", work->alone, "kernels_at_once",
                   work->kernels > 0 ? (int)work->kernels : 1, "slots", (int)work->slots, request->is_cut ? "chunks" : "frames",
                   (json_int_t)request->frames);
}

static json_t *slots_json(const struct plan_request *request) {
  json_t *list = json_array();
  struct overlap_work work = request->work;
  double frames = (double)request->frames, serial = 0;
  for (work.slots = 1; work.slots <= MOST_SLOTS; work.slots++) {
    double wall = forecast_wall(&work, request->frames);
    serial = work.slots == 1 ? wall : serial;
    json_array_append_new(list,
                          json_pack("{s:i, s:f, s:f, s:f}", "slots", (int)work.slots, "wall_us", wall, "speedup",
                                    wall > 0 ? serial / wall : 1.0, "ratio", overlap_ratio(wall, frames * overlap_sum(&work))));
  }
  return list;
}

static json_t *timeline_json(const struct plan_request *request) {
  json_t *list = json_array();
  struct forecast_timeline timeline;
  forecast_start(&timeline, &request->work);
  for (uint64_t i = 0; i < request->frames && i < MOST_JSON_FRAMES; i++) {
    struct overlap_frame frame = forecast_next(&timeline);
    json_t *entry = json_pack("{s:I, s:i}", "frame", (json_int_t)frame.number, "slot", (int)frame.slot);
    for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
      json_object_set_new(entry, overlap_engine_keys[engine],
                          json_pack("[f, f]", frame.spans[engine].begin, frame.spans[engine].end));
    }
    json_array_append_new(list, entry);
  }
  return list;
}

bool plan_report_json(FILE *out, const struct plan_request *request) {
  struct forecast_plan plan = forecast_plan(&request->work, request->frames);
  json_t *document = json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:i, s:o, s:o}", "work", work_json(request),
                               "serial_us", plan.serial, "wall_us", plan.wall, "speedup", plan.speedup, "ratio", plan.ratio,
                               "ideal_speedup", plan.ideal_speedup, "bound_us", plan.bound, "bound_speedup", plan.bound_speedup,
                               "bound_by", bound_name(request), "slots_for_bound", (int)plan.slots_for_bound, "by_slots",
                               slots_json(request), "timeline", timeline_json(request));
  if (document && request->measured) {
    json_object_set_new(document, "pipeline", json_string(request->measured));
    json_object_set_new(document, "pipeline_bound_by", json_string(request->bound_by));
  }
  bool fine = document && json_dumpf(document, out, TEXT_JSON) == 0;
  fputc('\n', out);
  json_decref(document);
  return fine;
}
