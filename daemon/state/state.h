/*
 * The room state/: what outlives a process.
 *
 * A state is the record of the image from which the next process finds all others. It exists before results are written to
 * files, even if no process could take over.
 */
#ifndef FRAMED_STATE_STATE_H
#define FRAMED_STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/measure/history.h"
#include "daemon/measure/trouble.h"

/* Raise this with every change of what is in the image, or of its meaning. */
enum { STATE_VERSION = 34 };

struct state {
  const void *server, *engine; /* their addresses */
  unsigned pipelines, files;
  struct state_pipeline {
    const void *address;
    uint64_t path;         /* checksum of the path of its file of results; 0: none */
    uint64_t result_bytes; /* size of a complete result there; 0: unknown */
  } pipeline[];
  /* followed by its files ("number path", each with a terminator) and the text of its configuration */
};

/* -- received from the previous process, until image_close_left() ----------------------------------------------------- */

struct left {
  const struct state *state; /* NULL: none, or not valid */
  const char *text, *end;    /* data after the pipelines, with a terminator before `end` */
  bool live;                 /* its process was killed: lanes stopped anywhere, and descriptors may be missing */
  bool by_manager;           /* the service manager kept it, and also passes its own sockets */
};

/* Reads the state of the mapped image. */
void state_receive(bool by_manager);
const struct left *state_left(void);

/* Take over the histories and a trouble. Return false if they are not valid. */
bool history_adopt(struct history *history, const struct history *left);
bool workers_adopt(struct worker_history *workers, const struct worker_history *left);
bool trouble_adopt(struct trouble *trouble, const struct trouble *left);

/* -- versions ------------------------------------------------------------------------------------------------------- */

/* Sets the sizes and limits of the records in the image, which this file does not know. Call before any thread starts. */
void state_set_layout(const size_t *sizes, size_t count);

/* The version of the state and its layout as text; must be equal for a takeover. */
enum { STATE_VERSION_TEXT = 32 };
const char *state_version(char text[STATE_VERSION_TEXT]);
uint64_t state_checksum(const void *bytes, size_t length);

#endif
