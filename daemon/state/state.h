/*
 * The room state/: what outlives a process.
 *
 * A state is the record of the image by which the next process finds all others. It is there from the time on when results may
 * be written to files, whether or not anybody could go on from it.
 */
#ifndef FRAMED_STATE_STATE_H
#define FRAMED_STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/measure/history.h"
#include "daemon/measure/trouble.h"

/* Raised with every change of what is in the image, or of what it means. */
enum { STATE_VERSION = 32 };

struct state {
  const void *server, *engine; /* where they lie */
  unsigned pipelines, files;
  struct state_pipeline {
    const void *address;
    uint64_t path;         /* a checksum of its file of results; 0: none */
    uint64_t result_bytes; /* size of a whole result there; 0: unknown */
  } pipeline[];
  /* its files ("number path" and a zero each), and the text of its configuration */
};

/* -- what a process before this one left, until image_look_away() ---------------------------------------------------- */

struct left {
  const struct state *state; /* NULL: none, or it makes no sense */
  const char *text, *end;    /* what stands behind the pipelines, up to a zero and `end` */
  bool live;                 /* its process was killed: lanes stood anywhere, and descriptors may be gone */
  bool by_manager;           /* the service manager had it, and also passes descriptors of its own */
};

/* Takes the state of the image that is looked into. */
void state_receive(bool by_manager);
const struct left *state_left(void);

/* Takes what is known of all process images, and what was wrong with something. False: it makes no sense. */
bool history_adopt(struct history *history, const struct history *left);
bool workers_adopt(struct worker_history *workers, const struct worker_history *left);
bool trouble_adopt(struct trouble *trouble, const struct trouble *left);

/* -- versions ------------------------------------------------------------------------------------------------------- */

/* The sizes and limits of what lies in the image, which this file does not know. Before any thread is started. */
void state_set_layout(const size_t *sizes, size_t count);

/* What must be equal for a state to be understood, as text: the version, and the layout. */
enum { STATE_VERSION_TEXT = 32 };
const char *state_version(char text[STATE_VERSION_TEXT]);
uint64_t state_checksum(const void *bytes, size_t length);

#endif
