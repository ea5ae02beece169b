/*
 * Opens what a pipeline reads from and writes to where that is not a socket: files, FIFOs, devices, standard input and
 * output. Nothing here ever waits for the other side of a FIFO.
 */
#ifndef FRAMED_CLIENT_ENDPOINT_H
#define FRAMED_CLIENT_ENDPOINT_H

#include <stdint.h>

#include "config/config.h"
#include "daemon/base/failure.h"

enum endpoint_kind {
  ENDPOINT_FILE, /* has an end, which is final */
  ENDPOINT_ONCE, /* standard input or output, a terminal, a device: ends once */
  ENDPOINT_FIFO  /* named: the other side comes and goes */
};

struct endpoint {
  int fd; /* not blocking unless it is a regular file; -1 for a FIFO to write to that nobody reads yet */
  enum endpoint_kind kind;
};

bool endpoint_open_source(const struct config_source *source, struct endpoint *endpoint, struct failure *failure);
/* Opens what the sink writes to; a regular file that does not exist is made. */
bool endpoint_open_sink(const struct config_sink *sink, struct endpoint *endpoint, struct failure *failure);
/* Opens a FIFO for its next reader, if a reader is there; no other kind of file is opened or made at the path. */
bool endpoint_open_next(const struct config_sink *sink, struct endpoint *endpoint, struct failure *failure);
/* Since when somebody opens a file: CLOCK_MONOTONIC ns; 0: nobody does. Only one thread at a time prepares pipelines. */
int64_t endpoint_asked(void);
/* Whether the path, which is not "-", names another file of the kind that is open by now, or nothing any more (`gone`). */
bool endpoint_has_moved(const char *path, int fd, bool *gone);
/* Closes the descriptor of an endpoint that is open; idempotent. */
void endpoint_close(struct endpoint *endpoint);

#endif
