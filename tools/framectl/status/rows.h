/* The rows of the table of `framectl top`, their order and their filter. This module does not use the terminal. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_ROWS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_ROWS_H

#include "tools/framectl/status/view.h"

enum row_key { ROW_NAME, ROW_STATE, ROW_IN, ROW_OUT, ROW_AGE, ROW_P99, ROW_DROPPED, ROW_WAITS, ROW_ERROR, ROW_KEYS };
enum { ROW_TEXT = 256 };

struct row_column {
  const char *title;
  int width; /* 0: the rest of the line */
  bool is_text;
  int least; /* hidden on terminals with fewer columns */
};
extern const struct row_column row_columns[ROW_KEYS];

struct row {
  struct pipeline_view view;
  const char *error; /* the last error that still holds, or "" */
  uint64_t dropped;  /* in the last minute */
  const json_t *drops;
};

struct row_order {
  enum row_key key; /* numbers in descending order, texts in ascending order */
  bool reversed;
  char filter[32]; /* shows rows whose name, state, error or bound contains it; "": all */
};

struct rows { /* zero before use; rows_clear() after. Strings belong to the document. */
  struct row *items;
  unsigned count, all; /* shown; in the document */
};

/* Without memory it returns false and has no rows. */
bool rows_make(struct rows *rows, json_t *document, const struct row_order *order);
void rows_clear(struct rows *rows);
/* The index of a pipeline; `count` if it is not shown. */
unsigned rows_find(const struct rows *rows, const char *name);
const char *row_text(const struct row *row, enum row_key key, char text[ROW_TEXT]);

#endif
