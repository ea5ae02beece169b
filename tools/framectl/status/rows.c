#include "tools/framectl/status/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/framectl/common/text.h"

/* A long name is cut. On a narrow terminal the least important columns are hidden first. */
const struct row_column row_columns[ROW_KEYS] = {
    [ROW_NAME] = {"PIPELINE", 15, true, 0},    [ROW_STATE] = {"STATE", 9, true, 0},
    [ROW_IN] = {"FPS IN", 8, false, 36},       [ROW_OUT] = {"FPS OUT", 8, false, 56},
    [ROW_AGE] = {"LAST IN", 9, false, 46},     [ROW_P99] = {"P99", 8, false, 65},
    [ROW_DROPPED] = {"DROPPED", 14, true, 78}, [ROW_WAITS] = {"WAITS FOR", 9, true, 88},
    [ROW_ERROR] = {"LAST ERROR", 0, true, 99},
};

/* -- one row ---------------------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* Daemons of earlier versions report only the errors of a pipeline's parts. */
static const char *find_error(json_t *pipeline) {
  const char *where, *found = text_of(pipeline, "last_error");
  json_t *error;
  json_object_foreach(json_object_get(pipeline, "errors"), where, error) { found = found[0] ? found : text_of(error, "text"); }
  return found;
}

static void fill(struct row *row, const char *name, json_t *pipeline) {
  const char *fate;
  json_t *drops = json_object_get(pipeline, "dropped_last_minute"), *count;
  *row = (struct row){.error = find_error(pipeline), .drops = drops};
  view_pipeline(name, pipeline, &row->view);
  json_object_foreach(drops, fate, count) { row->dropped += (uint64_t)json_integer_value(count); }
}

/* "12 late, 3 oldest" */
static const char *describe_drops(const struct row *row, char text[ROW_TEXT]) {
  size_t length = 0;
  const char *fate;
  json_t *count;
  snprintf(text, ROW_TEXT, "-");
  json_object_foreach((json_t *)row->drops, fate, count) {
    if (json_integer_value(count) > 0 && length < ROW_TEXT) {
      int added = snprintf(text + length, ROW_TEXT - length, "%s%lld %s", length > 0 ? ", " : "",
                           (long long)json_integer_value(count), fate);
      length += added > 0 ? (size_t)added : 0;
    }
  }
  return text;
}

const char *row_text(const struct row *row, enum row_key key, char text[ROW_TEXT]) {
  const struct pipeline_view *view = &row->view;
  switch (key) {
  case ROW_STATE:
    return view->state;
  case ROW_IN:
    return text_rate(text, view->in_fps);
  case ROW_OUT:
    return text_rate(text, view->out_fps);
  case ROW_AGE:
    return text_age(text, view->last_in_s);
  case ROW_P99:
    return view->latency[STEP_TOTAL].count > 0 ? text_duration(text, view->latency[STEP_TOTAL].p99) : "-";
  case ROW_DROPPED:
    return describe_drops(row, text);
  case ROW_WAITS:
    return strcmp(view->waiting, "nothing") == 0 ? "-" : view->waiting;
  case ROW_ERROR:
    return row->error[0] ? row->error : "-";
  case ROW_NAME:
  case ROW_KEYS:
    break;
  }
  return view->name;
}

/* -- all rows --------------------------------------------------------------------------------------------------------- */

static double number_of(const struct row *row, enum row_key key) {
  const struct pipeline_view *view = &row->view;
  return key == ROW_IN    ? view->in_fps
         : key == ROW_OUT ? view->out_fps
         : key == ROW_AGE ? (view->last_in_s < 0 ? INFINITY : view->last_in_s)
         : key == ROW_P99 ? view->latency[STEP_TOTAL].p99
                          : (double)row->dropped;
}

/* Numbers in names are compared as numbers: cam2 before cam10. */
static int compare(const void *one, const void *other, void *context) {
  const struct row *a = one, *b = other;
  const struct row_order *order = context;
  char text[ROW_TEXT], beside[ROW_TEXT];
  int before = 0;
  if (row_columns[order->key].is_text && order->key != ROW_DROPPED) {
    before = strverscmp(row_text(a, order->key, text), row_text(b, order->key, beside));
  } else {
    double x = number_of(a, order->key), y = number_of(b, order->key);
    before = (x < y) - (x > y);
  }
  before = order->reversed ? -before : before;
  return before != 0 ? before : strverscmp(a->view.name, b->view.name);
}

static bool is_wanted(const struct row *row, const char *filter) {
  return strcasestr(row->view.name, filter) || strcasestr(row->view.state, filter) || strcasestr(row->view.waiting, filter) ||
         strcasestr(row->error, filter);
}

bool rows_make(struct rows *rows, json_t *document, const struct row_order *order) {
  json_t *pipelines = json_object_get(document, "pipelines"), *pipeline;
  const char *name;
  rows_clear(rows);
  rows->items = calloc(json_object_size(pipelines) + 1, sizeof *rows->items);
  if (!rows->items) {
    return false;
  }
  json_object_foreach(pipelines, name, pipeline) {
    struct row *row = &rows->items[rows->count];
    fill(row, name, pipeline);
    rows->count += is_wanted(row, order->filter);
    rows->all++;
  }
  qsort_r(rows->items, rows->count, sizeof *rows->items, compare, (void *)order);
  return true;
}

void rows_clear(struct rows *rows) {
  free(rows->items);
  *rows = (struct rows){0};
}

unsigned rows_find(const struct rows *rows, const char *name) {
  unsigned index = 0;
  while (index < rows->count && strcmp(rows->items[index].view.name, name) != 0) {
    index++;
  }
  return index;
}
