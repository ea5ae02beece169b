/* Targets of the engine, from the rows of framebench overlap: the worst row of each kind. */
#include "tools/framebench/common/targets.h"
#include "tools/framebench/overlap/overlap.h"
#include "tools/framebench/overlap/workload.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/limits/limits.h"
#endif

#include <math.h>
#include <string.h>

enum { WHAT = 200 };

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

static const char *text(const json_t *row, const char *key) {
  const char *value = json_string_value(json_object_get(row, key));
  return value ? value : "";
}

/* -- the worst rows ------------------------------------------------------------------------------------------------- */

struct search {
  const char *way; /* "spin" */
  size_t least_bytes;
  const char *limit_key; /* the member with the limit */
  const char *what, *limit;
  double bound;
};

static const struct search searches[] = {
    {"spin", 0, "ideal_us", "overlap, spin, worst row", "what its own copies and kernels allow", 0.95},
    {"spin", 1 << 20, "ideal_us", "overlap, spin, 1 MiB or more, worst row", "what its own copies and kernels allow", 0.95},
    {"callback", 0, "ideal_us", "overlap, callback, worst row", "what its own copies and kernels allow", 0.95},
    {"callback", 1 << 20, "ideal_us", "overlap, callback, 1 MiB or more, worst row", "what its own copies and kernels allow",
     0.95},
    {"spin", 0, "bound_us", "bound, spin, worst row", "what engines, host and notice allow", 0.9},
    {"callback", 0, "bound_us", "bound, callback, worst row", "what engines, host and notice allow", 0.9},
    {"callback", 0, "bare_us", "overlap, callback, row farthest behind the bare loop", "bare CUDA loop, callback and eventfd",
     0.9},
};

static double share(const json_t *row, const char *key) { return number(row, key) / number(row, "us"); }

static const json_t *find_worst(const json_t *rows, const struct search *search) {
  size_t index;
  const json_t *row, *worst = NULL;
  json_array_foreach(rows, index, row) {
    if (strcmp(text(row, "way"), search->way) == 0 && number(row, "slots") >= OVERLAP_ENOUGH_SLOTS &&
        (size_t)number(row, "bytes") >= search->least_bytes && json_object_get(row, search->limit_key) &&
        (!worst || share(row, search->limit_key) < share(worst, search->limit_key))) {
      worst = row;
    }
  }
  return worst;
}

static void add_worst(struct results *results, const json_t *rows, const struct search *search) {
  char what[WHAT], size[RESULTS_TEXT];
  const json_t *worst = find_worst(rows, search);
  if (!worst) {
    return;
  }
  snprintf(what, sizeof what, "%s (%s, %s, %.0f slots%s)", search->what, results_size(size, (size_t)number(worst, "bytes")),
           text(worst, "kernel"), number(worst, "slots"), strcmp(text(worst, "graph"), "yes") == 0 ? ", graphs" : "");
  targets_add(results, &(struct target){what, search->limit, "frames/s", 1e6 / number(worst, "us"),
                                        1e6 / number(worst, search->limit_key), search->bound, false});
}

/* -- balanced stages ------------------------------------------------------------------------------------------------ */

#ifdef FRAMED_CUDA
/*
 * Copies in, kernels and copies out of equal length: only the use of both directions of the link can still improve. Takes the
 * better of streams and graphs, like the warm-up.
 */
static bool add_balanced(struct results *results, const json_t *rows, struct problem *problem) {
  const size_t bytes = 4 << 20;
  char what[WHAT];
  size_t index;
  const json_t *row, *best = NULL;
  double rate = 0;
  if (!limits_both_ways(bytes, &rate, problem)) {
    return false;
  }
  json_array_foreach(rows, index, row) {
    if ((size_t)number(row, "bytes") == bytes && number(row, "slots") == 3 && strcmp(text(row, "way"), "spin") == 0 &&
        strcmp(text(row, "kernel"), workload_names[WORKLOAD_EQUAL]) == 0 &&
        (!best || number(row, "speedup") > number(best, "speedup"))) {
      best = row;
    }
  }
  if (best) {
    double serial = number(best, "speedup") * number(best, "us"), allowed = (double)bytes / rate / 1e3;
    snprintf(what, sizeof what, "balanced stages, 4 MiB frames, 3 slots, %s: speedup over serial",
             strcmp(text(best, "graph"), "yes") == 0 ? "graphs" : "streams");
    targets_add(results, &(struct target){what, "what the link allows both ways at once", "times", number(best, "speedup"),
                                          serial / allowed, 0.97, false});
  }
  return true;
}
#else
static bool add_balanced(struct results *results, const json_t *rows, struct problem *problem) {
  (void)results;
  (void)rows;
  (void)problem;
  return true;
}
#endif

/* -- the witness ---------------------------------------------------------------------------------------------------- */

/* The engine whose busy time differs most from CUPTI's records. */
static void add_witness(struct results *results, size_t bytes) {
  char what[WHAT], size[RESULTS_TEXT];
  size_t index;
  const json_t *row, *worst = NULL;
  json_array_foreach(results_rows(results, "witness"), index, row) {
    if ((size_t)number(row, "bytes") == bytes &&
        (!worst || fabs(number(row, "ratio") - 1) > fabs(number(worst, "ratio") - 1))) {
      worst = row;
    }
  }
  if (worst) {
    double own = number(worst, "own_us"), seen = number(worst, "cupti_us");
    snprintf(what, sizeof what, "busy time of an engine, ours and CUPTI's, %s frames, worst of three (%s): the lesser one",
             results_size(size, bytes), text(worst, "engine"));
    targets_add(results, &(struct target){what, "the greater one", "us", fmin(own, seen), fmax(own, seen), 0.95, false});
  }
}

bool overlap_targets(struct results *results, bool cuda, struct problem *problem) {
  const json_t *rows = results_rows(results, "rows");
  targets_begin(results);
  if (cuda && !add_balanced(results, rows, problem)) {
    return false;
  }
  for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
    add_worst(results, rows, &searches[i]);
  }
  add_witness(results, 4 << 20);
  add_witness(results, 24 << 20);
  return true;
}
