/*
 * Copies bytes from one descriptor to another through a buffer, whenever both are ready. Several relays can run at once.
 *
 * A relay reads only what its buffer can hold, so a slow reader slows down the writer.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_STREAM_RELAY_H
#define FRAMED_TOOLS_FRAMECTL_STREAM_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RELAY_BUFFER = 1 << 20, RELAY_MAX = 2, RELAY_FIRST = 512 };

enum relay_state {
  RELAY_MOVING,
  RELAY_ENDED,       /* the source ended or the limit is reached, and all bytes are written */
  RELAY_READ_FAILED, /* `error` says why */
  RELAY_WRITE_FAILED
};

struct relay {
  int from;
  int to;           /* -1: discard */
  bool shut;        /* shut `to`, a socket, for writing at the end */
  uint64_t limit;   /* stop after that many bytes, or lines; 0: no limit */
  bool by_line;     /* the data is lines, which are counted */
  const char *verb; /* shown with the amount, such as "pulling"; NULL: no progress line */

  enum relay_state state;
  int error;
  uint64_t moved; /* bytes written */
  char *buffer;
  size_t start, end; /* the unwritten part of the buffer */
  uint64_t taken;    /* bytes read */
  uint64_t lines;    /* complete lines among them */
  bool source_ended;
  char first[RELAY_FIRST + 1]; /* the first bytes read, and a zero */
};

/*
 * Runs until the last relay has ended, any has failed, or an interrupt comes. After an interrupt it writes what it has read,
 * but only as far as the output accepts it at once. False: no memory.
 */
bool relay_run(struct relay *relays, unsigned count);
/* Call this after relay_run(): reads the remaining bytes, only for `first`. */
void relay_read_rest(struct relay *relay);

#endif
