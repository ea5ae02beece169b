/*
 * Readers with shared memory: results are lent to them (see loans.h), and no byte of a result passes through the lane.
 *
 * Nothing that such a reader can write needs to be trusted: cursors and loans are kept here, and the one cursor that is the
 * reader's is copied and checked. Private to the files of a sink with readers; all of it runs on the sink's lane.
 */
#ifndef FRAMED_SINK_SHARED_H
#define FRAMED_SINK_SHARED_H

#include "daemon/sink/loans.h"

/* Begins to listen to a reader that was just attached; 0 or an error of libuv's. */
int shared_attach(struct reader *reader);
/* Sends readers away that hold too long what is wanted. */
void shared_tick(struct sink *sink, int64_t now);
/* Hears what the reader rings, takes back what it is done with, and lends it what there is. True: look again without
 * sleeping. */
bool shared_turn(struct sink *sink, struct reader *reader, int64_t now);
/* Takes back what readers are done with, though they may not have rung: before another one comes. */
void shared_look(struct sink *sink, int64_t now);

#endif
