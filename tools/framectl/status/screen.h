/* What `framectl top` shows, and how it is drawn; knows the terminal and neither keys nor daemon. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_SCREEN_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_SCREEN_H

#include "tools/framectl/status/history.h"
#include "tools/framectl/status/rows.h"

struct scene {
  json_t *document;    /* the last answer; NULL: none yet */
  const char *problem; /* why there is no newer answer; NULL: there is one */
  const struct history *history;
  struct rows rows;
  struct row_order order;
  bool is_typing;    /* the filter */
  char selected[65]; /* a pipeline's name; "": none */
  unsigned top;      /* index of the first row in sight */
  char *details;     /* of the selected pipeline, which is open; NULL: the table is shown */
  unsigned scroll;   /* the first line of them in sight */
  bool frozen, help;
  char message[128]; /* about the last key; "": none */
};

/* False if the terminal cannot do it. */
bool screen_open(bool colour);
void screen_close(void);
void screen_draw(struct scene *scene);

#endif
