/*
 * What the files of a sink with readers share, from the lowest: rest.c makes room before slow readers, departure.c polls for
 * the end of a reader and lets it go, readers.c writes. All of it runs on the sink's lane.
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

/* -- rest.c --------------------------------------------------------------------------------------------------- */

bool readers_reclaim(struct sink *sink, int64_t now);
uint64_t readers_discard(struct sink *sink, enum fate fate, int64_t now);
/* Room for what this reader will still need of a result that it begins with. False: there is none for now. */
bool readers_take_room(struct sink *sink, struct reader *reader);
/* The reader is between two results, or leaves. */
void readers_return_room(struct sink *sink, struct reader *reader);
/* The reader has sent its rest (`taken`), or leaves it. */
void readers_drop_rest(struct sink *sink, struct reader *reader, bool taken, int64_t now);

/* -- departure.c ---------------------------------------------------------------------------------------------- */

void readers_stop(struct sink *sink);
void readers_detach(struct sink *sink); /* all of them */
/* Takes the reader off the queue and closes its handle; what it had not taken goes on without it. */
void reader_depart(struct sink *sink, struct reader *reader, const char *why);
/* Gives back a reader whose handle is closed, or never was one. */
void reader_finish_departure(struct sink *sink, struct reader *reader);
/* Polls for the reader's end, and for room if that is wanted: while there is something to send. */
void reader_watch(struct reader *reader, bool wants_room);

#endif
