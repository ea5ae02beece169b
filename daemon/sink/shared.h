/*
 * Readers with shared memory: a result is lent to them where the device has written it, and no byte of it passes through the
 * lane. Private to the files of a sink with readers; all of it runs on the sink's lane.
 *
 * A loan begins with a completion in the reader's control memory and ends when the reader moves its cursor past it, or leaves.
 * Until then the slot is not the session's. What always holds:
 *   - nothing that the reader can write needs to be trusted: cursors and loans are kept here, and its one cursor is copied
 *     and checked;
 *   - under `block` a lent result stays in the queue, so that it goes to the next reader if this one leaves without taking it;
 *   - under `drop` it is set aside as soon as no other reader is on it, so that those behind it go on. The session always keeps
 *     a slot to work with, and a reader that holds one for too long while it is wanted has to go.
 * A sink with readers has one session, so that a slot is known by its index.
 */
#ifndef FRAMED_SINK_SHARED_H
#define FRAMED_SINK_SHARED_H

#include "daemon/sink/results.h"

struct borrower *borrower_free(struct borrower *borrower); /* NULL is fine; returns NULL */

/* Begins to listen to a reader that was just attached; 0 or an error of libuv's. */
int shared_attach(struct reader *reader);
/* Sends those away that hold too long what is wanted. */
void shared_tick(struct sink *sink, int64_t now);
/* Hears what it rings, takes back what it is done with, and lends it what there is. True: look again without sleeping. */
bool shared_turn(struct sink *sink, struct reader *reader, int64_t now);
/* Takes back what readers are done with, though they may not have rung: before another one comes. */
void shared_look(struct sink *sink, int64_t now);
/* It leaves: its loans end. */
void shared_leave(struct sink *sink, struct reader *reader, int64_t now);
/* What a reader that has left is to be told, as in struct sink_event. */
unsigned reader_farewell(const struct reader *reader);

/* Whether the slot of a result is lent to anybody. */
bool shared_has(const struct sink *sink, const struct result *result);
/* `drop`: takes the first result out of the queue, while its slot stays with those that it is lent to. */
void shared_set_aside(struct sink *sink);
/* Every loan ends, and results that were set aside get this fate, if they are open. */
void shared_discard(struct sink *sink, enum fate fate, int64_t now);
/* `drop`: the session has nothing but lent slots to go on with. */
void shared_want(struct sink *sink);
/* Some slot is lent. */
bool shared_lends(const struct sink *sink);
/* [no lane runs] What was set aside is in the queue again, before all else, as it goes over a tape. */
void shared_recall(struct sink *sink);

#endif
