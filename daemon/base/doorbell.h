/*
 * Doorbells on the connection beside shared memory: bytes that say nothing but "look". A side that sleeps has said so in the
 * control memory, and only then is it rung for. Any lane.
 */
#ifndef FRAMED_BASE_DOORBELL_H
#define FRAMED_BASE_DOORBELL_H

#include <stdbool.h>

#include "daemon/wire/native_wire.h"

/* Wakes a client that sleeps, after a cursor was written. False: it sleeps and cannot be rung for now; try again. */
bool doorbell_ring(struct native_control *control, int fd);

enum doorbell_input {
  DOORBELL_NOTHING,  /* all that were there, if any, are taken */
  DOORBELL_MORE,     /* there may be more of them: one that rings all the time costs one read a turn */
  DOORBELL_GONE,     /* the client has left */
  DOORBELL_NONSENSE, /* it said something else, which no client may */
  DOORBELL_ERROR     /* errno says why */
};

/* Takes the doorbells that wait. */
enum doorbell_input doorbell_read(int fd);

/* What a client is told after DOORBELL_NONSENSE. */
#define DOORBELL_COMPLAINT "with shared memory a connection carries doorbells only, bytes of 0"

#endif
