/* The content of `framectl top` and how it is drawn. This module does not read keys and does not contact the daemon. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_SCREEN_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_SCREEN_H

#include "tools/framectl/status/history.h"
#include "tools/framectl/status/rows.h"

struct scene {
  json_t *document;    /* the last answer; NULL: none yet */
  const char *problem; /* why the last request failed; NULL: it did not */
  const struct history *history;
  struct rows rows;
  struct row_order order;
  bool is_typing;    /* the filter is being typed */
  char selected[65]; /* a pipeline's name; "": none */
  unsigned top;      /* index of the first visible row */
  char *details;     /* of the selected pipeline, when it is open; NULL: the table is shown */
  unsigned scroll;   /* the first visible line of the details */
  bool frozen, help;
  char message[128]; /* the result of the last key; "": none */
};

/* False if the terminal cannot draw a screen. */
bool screen_open(bool colour);
void screen_close(void);
void screen_draw(struct scene *scene);

#endif
