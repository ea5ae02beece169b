/*
 * status/: what is told outside; asks through a table of functions (status_ops) and never calls up.
 *
 * The status socket: HTTP on the control loop, through libmicrohttpd. Status only reads snapshots and passes commands
 * on; nothing a client does here can hold up a lane.
 */
#ifndef FRAMED_STATUS_STATUS_H
#define FRAMED_STATUS_STATUS_H

#include "daemon/base/failure.h"
#include "daemon/status/status_ops.h"

struct status;

/* Serves on the listening socket `fd`, which is the caller's and outlives the status. A `read_only` server knows no
 * POST (the TCP address). `ops` stays the caller's. NULL on error. */
struct status *status_new(const struct status_ops *ops, int fd, bool read_only, struct failure *failure);
/* Ends it on the loop: answers what is open with 503, then calls `done`. */
void status_close(struct status *status, void (*done)(void *context), void *context);

/* The documents themselves, without HTTP; for tests, and for the state dump. The caller frees. */
struct viewer;
json_t *status_document(const struct status_ops *ops, const struct viewer *viewer);
/* A pipeline's past ten minutes, the oldest interval first. */
json_t *past_document(const struct past *past, int64_t now);
/* Of `live_only` lanes, devices and what is on them, else of all. */
json_t *health_document(const struct health *health, bool live_only);
char *metrics_text(const struct status_ops *ops);

/* Asks the kernel for the memory and the descriptors of `usage`. For the control loop: it may take some tens of microseconds.
 */
void usage_of_process(struct usage *usage);

#endif
