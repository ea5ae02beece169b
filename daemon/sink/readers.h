/*
 * What the three files of a sink with readers share: readers.c has the queue and writes, arrival.c lets readers
 * come and go, rest.c makes room before slow ones. Nobody else includes this. All of it runs on the sink's lane.
 */
#ifndef FRAMED_SINK_READERS_H
#define FRAMED_SINK_READERS_H

#include "daemon/sink/results.h"

/* A reader's counts have one writer and are read by other threads. */
#define READER_COUNT(counter, by)                                                                                              \
  atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (by), memory_order_relaxed)

/* How long a reader may hold a slot or room that is wanted, under `drop`: in ticks of its lane, so that no time counts in which
 * the process was stopped. */
enum { HOLD_TICKS = 10, TICK_MS = 100 };

/* -- readers.c ------------------------------------------------------------------------------------------------ */

/* Releases what no reader is on; under `block` only what one has taken. */
void readers_release(struct sink *sink, int64_t now);
void readers_tick(struct runner *runner, int64_t now);

/* -- arrival.c ------------------------------------------------------------------------------------------------ */

void readers_attach(struct sink *sink, struct reader *reader);
void readers_stop(struct sink *sink);
void readers_detach(struct sink *sink); /* all of them */
/* Takes the reader off the queue and closes its handle; what it had not taken goes on without it. */
void reader_depart(struct sink *sink, struct reader *reader, const char *why);
/* Polls for the reader's end, and for room if that is wanted: while there is something to send. */
void reader_watch(struct reader *reader, bool wants_room);

/* -- rest.c --------------------------------------------------------------------------------------------------- */

bool readers_reclaim(struct sink *sink, int64_t now);
void readers_discard(struct sink *sink, enum fate fate, int64_t now);
/* Room for what this reader will still need of a result that it begins with. False: there is none for now. */
bool readers_take_room(struct sink *sink, struct reader *reader);
/* It is between two results, or leaves. */
void readers_return_room(struct sink *sink, struct reader *reader);
/* Sends those away that take nothing while others want their room. */
void readers_tick_rooms(struct sink *sink);
/* The reader has sent its rest (`taken`), or leaves it. */
void readers_drop_rest(struct sink *sink, struct reader *reader, bool taken, int64_t now);

#endif
