/* framebench report: makes one table from the JSON documents in a folder. */
#include "tools/framebench/command.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const json_t *object, const char *key) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : "";
}

/* -- the table ------------------------------------------------------------------------------------------------------ */

/* Prints three digits, or all digits before the point: "0.987", "47.9", "131072". */
static void print_figure(FILE *out, const json_t *value, const char *unit) {
  double number = json_number_value(value);
  if (!json_is_number(value)) {
    fputs(" |", out);
    return;
  }
  int digits = fabs(number) < 9.995 ? 2 : fabs(number) < 99.95 ? 1 : 0;
  fprintf(out, " %.*f%s%s |", digits, number, *unit ? " " : "", unit);
}

static void print_target(FILE *out, const json_t *row) {
  const json_t *most = json_object_get(row, "at_most"), *ratio = json_object_get(row, "ratio");
  const char *unit = text(row, "unit");
  fprintf(out, "| %s |", text(row, "what"));
  print_figure(out, json_object_get(row, "value"), unit);
  fprintf(out, " %s%s", text(row, "limit"), json_object_get(row, "limit_value") ? ":" : "");
  print_figure(out, json_object_get(row, "limit_value"), unit);
  if (most) {
    fprintf(out, " | at most %g%s%s |", json_number_value(most), *unit ? " " : "", unit);
  } else {
    fprintf(out, " %.3f | %g |", json_number_value(ratio), json_number_value(json_object_get(row, "at_least")));
  }
  fprintf(out, " %s |\n", text(row, "reached"));
}

/* Prints the machine as one sentence, preferably from a document that names a device. */
static void print_machine(FILE *out, const json_t *documents) {
  size_t index;
  const json_t *document, *chosen = NULL;
  json_array_foreach(documents, index, document) { /* some have no device or no machine */
    bool first = !chosen || (*text(document, "device") && !*text(chosen, "device"));
    bool better = first || strcmp(text(document, "backend"), "cuda") == 0;
    chosen = better && json_object_get(document, "machine") ? document : chosen;
  }
  const json_t *machine = json_object_get(chosen, "machine");
  fprintf(out, "Measured with framed %s on %s (driver %s), %s, %lld processors, Linux %s, on %s UTC.\n\n",
          text(chosen, "version"), *text(chosen, "device") ? text(chosen, "device") : "no device",
          *text(machine, "driver") ? text(machine, "driver") : "none", text(machine, "processor"),
          (long long)json_integer_value(json_object_get(machine, "processors")), text(machine, "kernel"),
          text(machine, "date"));
}

/* Prints all rows of the sections "targets", in the order of the documents. Returns their number. */
static size_t print_targets(FILE *out, const json_t *documents) {
  size_t index, inner, count = 0;
  const json_t *document, *row;
  fputs("| what | measured | limit in the same run | ratio | at least | reached |\n|---|---|---|---|---|---|\n", out);
  json_array_foreach(documents, index, document) {
    json_array_foreach(json_object_get(json_object_get(document, "sections"), "targets"), inner, row) {
      print_target(out, row);
      count++;
    }
  }
  return count;
}

/* -- reading the folder --------------------------------------------------------------------------------------------- */

static int is_json(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static bool load(const char *folder, const char *name, json_t *documents, struct problem *problem) {
  char path[4096];
  json_error_t error;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  json_t *document = json_load_file(path, 0, &error);
  if (!document) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "measure it again, or remove the file", "%s:%d: %s", path, error.line,
                       error.text);
  }
  json_array_append_new(documents, document);
  return true;
}

static bool load_all(const char *folder, json_t *documents, struct problem *problem) {
  struct dirent **entries = NULL;
  int count = scandir(folder, &entries, is_json, alphasort);
  bool done = count >= 0 || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s: %s", folder, strerror(errno));
  for (int i = 0; i < count; i++) {
    done = done && load(folder, entries[i]->d_name, documents, problem);
    free(entries[i]);
  }
  free(entries);
  return done;
}

/* -- the command --------------------------------------------------------------------------------------------------- */

bool command_report(int count, char **arguments, struct problem *problem) {
  if (count != 2) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "'report' needs one folder of results");
  }
  json_t *documents = json_array();
  bool done = load_all(arguments[1], documents, problem);
  if (done && json_array_size(documents) == 0) {
    done = problem_set(problem, EXIT_STATUS_REFUSED, "`make bench` writes them", "%s: no file ends in .json", arguments[1]);
  }
  if (done) {
    print_machine(stdout, documents);
    done = print_targets(stdout, documents) > 0 ||
           problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s: no document has targets", arguments[1]);
  }
  json_decref(documents);
  return done;
}
