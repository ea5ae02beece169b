/*
 * Takes pictures for viewers of a pipeline: asks its session for the next result, and makes files of it on a thread of its own.
 *
 * Viewers who ask for the same side of the same session at the same time get the same frame, and a session is asked for at most
 * PICTURES_A_SECOND, and not before the files of its last picture are made. So viewers cost a lane a bounded share of its time,
 * and keep no other work waiting, however many there are. Widths are rounded down to one of a few, so that viewers share files.
 */
#ifndef FRAMED_STATUS_PICTURES_H
#define FRAMED_STATUS_PICTURES_H

#include "daemon/status/status_ops.h"

enum { PICTURES_MOST = 25, PICTURES_A_SECOND = 5 }; /* viewers that wait at once, and likewise those that watch */

struct pictures;

/* `ops` stays the caller's. NULL if there is no memory. */
struct pictures *pictures_new(const struct status_ops *ops);
/* Answers every order with 503 and takes no more. Idempotent; NULL is fine. */
void pictures_stop(struct pictures *pictures);
/* After pictures_stop() and the end of all sessions, with the loop at its end. NULL is fine; returns NULL. */
struct pictures *pictures_free(struct pictures *pictures);

/* 404 without such a pipeline or where its frames are no pictures; 204 if no result comes for two seconds. */
void pictures_take(struct pictures *pictures, const struct picture_order *order);

#endif
