/*
 * Opens sources and sinks that are not sockets: files, FIFOs, devices, standard input and output. Never waits for the other
 * side of a FIFO.
 */
#ifndef FRAMED_CLIENT_ENDPOINT_H
#define FRAMED_CLIENT_ENDPOINT_H

#include <stdint.h>

#include "config/config.h"
#include "daemon/base/failure.h"

enum endpoint_kind {
  ENDPOINT_FILE, /* has an end, which is final */
  ENDPOINT_ONCE, /* standard input or output, a terminal, a device: ends once */
  ENDPOINT_FIFO  /* named pipe: the other side comes and goes */
};

struct endpoint {
  /* Non-blocking unless it is a regular file. -1: a FIFO for writing that has no reader yet. */
  int fd;
  enum endpoint_kind kind;
};

bool endpoint_open_source(const struct config_source *source, struct endpoint *endpoint, struct failure *failure);
/* Opens the sink's file; creates a regular file if the path does not exist. */
bool endpoint_open_sink(const struct config_sink *sink, struct endpoint *endpoint, struct failure *failure);
/* Opens a FIFO for its next reader, if there is one. Opens or creates no other kind of file. */
bool endpoint_open_next(const struct config_sink *sink, struct endpoint *endpoint, struct failure *failure);
/* CLOCK_MONOTONIC ns since when a file is being opened; 0: none is. Only one thread at a time prepares pipelines. */
int64_t endpoint_asked(void);
/* True if the path, which is not "-", now names another file of the same kind. `gone`: it names nothing any more. */
bool endpoint_has_moved(const char *path, int fd, bool *gone);
/* Closes the endpoint's descriptor; idempotent. */
void endpoint_close(struct endpoint *endpoint);

#endif
