#include "tools/framebench/common/results.h"

#include "tools/framectl/common/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct results {
  bool json, failed; /* failed: out of memory */
  json_t *document;
  const char *command;
  struct progress progress;
  size_t expected;               /* rows of the section; 0: unknown */
  const struct section *section; /* the current one */
  json_t *rows;                  /* its rows, owned by the document */
};

struct results *results_new(const char *command, bool json, json_t *machine) {
  struct results *results = calloc(1, sizeof *results);
  json_t *document =
      json_pack("{s:s, s:s, s:o, s:{}}", "command", command, "version", FRAMED_VERSION, "machine", machine, "sections");
  if (!results || !document) {
    json_decref(document);
    free(results);
    return NULL;
  }
  *results = (struct results){.json = json, .document = document, .command = command};
  progress_begin(&results->progress);
  return results;
}

struct results *results_free(struct results *results) {
  if (results) {
    progress_clear(&results->progress);
    json_decref(results->document);
    free(results);
  }
  return NULL;
}

const char *results_size(char text[RESULTS_TEXT], size_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  unsigned unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  snprintf(text, RESULTS_TEXT, "%zu %s", bytes, units[unit]);
  return text;
}

/* -- for people ----------------------------------------------------------------------------------------------------- */

static void print_number(struct table *table, enum column_kind kind, const json_t *value) {
  char text[TEXT_ROOM], size[RESULTS_TEXT];
  double number = json_number_value(value);
  switch (kind) {
  case COLUMN_SIZE:
    table_cell(table, COLOUR_NONE, "%s", results_size(size, (size_t)number));
    return;
  case COLUMN_TIME:
    table_cell(table, COLOUR_NONE, "%s", text_duration(text, number));
    return;
  case COLUMN_RATE:
    table_cell(table, COLOUR_NONE, "%s", text_rate(text, number));
    return;
  case COLUMN_BANDWIDTH:
    table_cell(table, COLOUR_NONE, "%.*f", number < 10 ? 2 : 1, number);
    return;
  case COLUMN_RATIO:
    table_cell(table, COLOUR_NONE, "%.3f", number);
    return;
  case COLUMN_COUNT:
  case COLUMN_TEXT:
    break;
  }
  table_cell(table, COLOUR_NONE, "%.0f", number);
}

static void print_cell(struct table *table, const struct column *column, const json_t *row) {
  const json_t *value = json_object_get(row, column->key);
  if (json_is_string(value)) {
    table_cell(table, COLOUR_NONE, "%s", json_string_value(value));
  } else if (json_is_number(value)) {
    print_number(table, column->kind, value);
  } else {
    table_cell(table, COLOUR_NONE, "-");
  }
}

static struct table *new_table(const struct column *columns) {
  char headings[512];
  size_t used = 0;
  headings[0] = '\0';
  for (const struct column *column = columns; column->key && used < sizeof headings; column++) {
    used += (size_t)snprintf(headings + used, sizeof headings - used, "%s%s%s", column == columns ? "" : "|",
                             column->kind == COLUMN_TEXT ? "" : ">", column->heading);
  }
  return table_new(headings);
}

/* Most rows of a section have the same note, so each note is printed once. */
static void print_notes(const json_t *rows) {
  const char *said = "";
  size_t index;
  json_t *row;
  json_array_foreach(rows, index, row) {
    const char *note = json_string_value(json_object_get(row, "note"));
    if (note && strcmp(note, said) != 0) {
      printf("  %s\n", note);
      said = note;
    }
  }
}

static void print_section(struct results *results) {
  struct table *table = new_table(results->section->columns);
  size_t index;
  json_t *row;
  printf("%s\n", results->section->title);
  json_array_foreach(results->rows, index, row) {
    for (const struct column *column = results->section->columns; table && column->key; column++) {
      print_cell(table, column, row);
    }
  }
  results->failed |= !table || !table_print(table, stdout, "  ", isatty(STDOUT_FILENO));
  table_free(table);
  print_notes(results->rows);
  putchar('\n');
  fflush(stdout);
}

/* -- filling -------------------------------------------------------------------------------------------------------- */

static void end_section(struct results *results) {
  progress_clear(&results->progress);
  if (results->section && !results->json) {
    print_section(results);
  }
  results->section = NULL;
  results->rows = NULL;
}

void results_section(struct results *results, const struct section *section) {
  end_section(results);
  results->section = section;
  results->expected = 0;
  results->rows = json_array();
  results->failed |= json_object_set_new(json_object_get(results->document, "sections"), section->name, results->rows) != 0;
}

void results_expect(struct results *results, size_t rows) {
  results->expected = rows;
  progress_begin(&results->progress);
}

struct progress *results_progress(struct results *results) {
  return &results->progress;
}

void results_row(struct results *results, json_t *row) {
  results->failed |= json_array_append_new(results->rows, row) != 0;
  size_t rows = json_array_size(results->rows), all = results->expected;
  if (rows <= all) {
    progress_show(&results->progress, (double)rows / (double)all, "%s %s: row %zu of %zu", results->command,
                  results->section->name, rows, all);
  } else {
    progress_show(&results->progress, -1, "%s %s: row %zu", results->command, results->section->name, rows);
  }
}

const json_t *results_rows(const struct results *results, const char *section) {
  return json_object_get(json_object_get(results->document, "sections"), section);
}

void results_set(struct results *results, const char *key, json_t *value) {
  results->failed |= json_object_set_new(results->document, key, value) != 0;
}

bool results_finish(struct results *results, struct problem *problem) {
  end_section(results);
  if (results->failed) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  if (results->json) {
    if (json_dumpf(results->document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0) {
      return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write the results to standard output");
    }
    putchar('\n');
  }
  return true;
}
