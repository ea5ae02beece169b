/* The table of `framectl top`: what each pipeline's row says, which rows there are and in which order. Knows no terminal. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_ROWS_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_ROWS_H

#include "tools/framectl/status/view.h"

enum row_key { ROW_NAME, ROW_STATE, ROW_IN, ROW_OUT, ROW_AGE, ROW_P99, ROW_DROPPED, ROW_WAITS, ROW_ERROR, ROW_KEYS };
enum { ROW_TEXT = 256 };

struct row_column {
  const char *title;
  int width; /* 0: what is left of the line */
  bool is_text;
  int least; /* columns of a terminal that has room for it */
};
extern const struct row_column row_columns[ROW_KEYS];

struct row {
  struct pipeline_view view;
  const char *error; /* the last one that is not mended, or "" */
  uint64_t dropped;  /* in the last minute */
  const json_t *drops;
};

struct row_order {
  enum row_key key; /* numbers begin with the highest, texts with A */
  bool reversed;
  char filter[32]; /* rows that have it in their name, state, error or what they wait for; "": all */
};

struct rows { /* zero before use; rows_clear() after. Strings belong to the document. */
  struct row *items;
  unsigned count, all; /* shown, and there are */
};

/* False without memory: then there are no rows. */
bool rows_make(struct rows *rows, json_t *document, const struct row_order *order);
void rows_clear(struct rows *rows);
/* The index of a pipeline; `count` if it is not shown. */
unsigned rows_find(const struct rows *rows, const char *name);
const char *row_text(const struct row *row, enum row_key key, char text[ROW_TEXT]);

#endif
