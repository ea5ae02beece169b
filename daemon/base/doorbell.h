/*
 * Doorbells on the connection next to shared memory: bytes without meaning that wake the other side. A side that sleeps sets a
 * word in the control memory, and only then the other side rings. Any lane.
 */
#ifndef FRAMED_BASE_DOORBELL_H
#define FRAMED_BASE_DOORBELL_H

#include <stdbool.h>

#include "daemon/wire/native_wire.h"

/* Wakes a sleeping client after a cursor was written. Returns false if it sleeps and the doorbell could not be rung; try
 * again. */
bool doorbell_ring(struct native_control *control, int fd);

enum doorbell_input {
  DOORBELL_NOTHING, /* all doorbells that waited, if any, were read */
  /* there may be more; reads are limited, so that a client that rings all the time costs a bounded part of a turn */
  DOORBELL_MORE,
  DOORBELL_GONE,     /* the client has left */
  DOORBELL_NONSENSE, /* it sent something else, which breaks the protocol */
  DOORBELL_ERROR     /* errno has the reason */
};

/* Reads the doorbells that wait. */
enum doorbell_input doorbell_read(int fd);

/* The error text for DOORBELL_NONSENSE. */
#define DOORBELL_COMPLAINT "with shared memory a connection carries doorbells only, bytes of 0"

#endif
