/*
 * The clients that one end of a pipeline refused: their number, and time, reason and remedy of the last one. The log has each
 * of them, within its limits; status has the last. Control loop only.
 */
#ifndef FRAMED_CLIENT_REFUSALS_H
#define FRAMED_CLIENT_REFUSALS_H

#include <stdint.h>

#include "daemon/base/log.h"
#include "daemon/wire/native_wire.h"

enum { REFUSAL_TEXT = 400, REFUSAL_REMEDY = 160 };

struct refusal {
  int64_t at;                  /* CLOCK_MONOTONIC ns; 0: none in this process */
  char text[REFUSAL_TEXT];     /* one line that is safe to print, without a full stop */
  char remedy[REFUSAL_REMEDY]; /* may be empty */
};

struct refusals { /* zero before use */
  uint64_t count; /* with those of previous processes */
  struct refusal last;
};

/* Counts a refusal and logs it. The remedy may be NULL. */
__attribute__((format(printf, 5, 6))) void refusals_add(struct refusals *refusals, enum log_kind kind, const char *pipeline,
                                                        const char *remedy, const char *format, ...);
/* The remedy for a client that is refused with this code. */
const char *refusals_remedy(enum native_error_code code);

#endif
