/*
 * Moves bytes from one descriptor to another through one buffer, as both get ready; several at once.
 *
 * A relay reads no more than it can hold, so that whoever is slow on one end slows down the other.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_STREAM_RELAY_H
#define FRAMED_TOOLS_FRAMECTL_STREAM_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RELAY_BUFFER = 1 << 20, RELAY_MAX = 2, RELAY_FIRST = 512 };

enum relay_state {
  RELAY_MOVING,
  RELAY_ENDED,       /* its source ended or the limit is reached, and all is written */
  RELAY_READ_FAILED, /* `error` says why */
  RELAY_WRITE_FAILED
};

struct relay {
  int from;
  int to;           /* -1: throw away */
  bool shut;        /* shut `to`, a socket, for writing at the end */
  uint64_t limit;   /* stop after that many bytes, or lines; 0: go on to the end */
  bool by_line;     /* what is moved are lines, which are counted */
  const char *verb; /* "pulling": shown with how much it is, as long as it goes on; NULL: nothing is */

  enum relay_state state;
  int error;
  uint64_t moved; /* bytes written */
  char *buffer;
  size_t start, end; /* what waits in the buffer */
  uint64_t taken;    /* bytes read */
  uint64_t lines;    /* and lines whose end was among them */
  bool source_ended;
  char first[RELAY_FIRST + 1]; /* the first bytes that were read, and a zero */
};

/* Runs until the last relay has ended or any has failed, or an interrupt comes: then what was read is still written, as far as
 * whoever takes it does so at once. False: no memory. */
bool relay_run(struct relay *relays, unsigned count);
/* After relay_run(): reads what still lies ready, for `first` alone. */
void relay_read_rest(struct relay *relay);

#endif
