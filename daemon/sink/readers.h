/*
 * What the files of a sink with readers share, from the lowest: rest.c makes room before slow readers, reader.c polls for
 * the end of a reader and lets it go, readers.c writes. All of it runs on the sink's lane.
 */
#ifndef FRAMED_SINK_READERS_H
#define FRAMED_SINK_READERS_H

#include "daemon/sink/results.h"

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

/* -- reader.c ------------------------------------------------------------------------------------------------- */

void readers_stop(struct sink *sink);
void readers_detach(struct sink *sink); /* all of them */
/* Takes the reader off the queue and closes its handle; what it had not taken goes on without it. */
void reader_depart(struct sink *sink, struct reader *reader, const char *why);
/* Gives back a reader whose handle is closed, or never was one. */
void reader_finish_departure(struct sink *sink, struct reader *reader);
/* Polls for the reader's end, and for room if that is wanted: while there is something to send. */
void reader_watch(struct reader *reader, bool wants_room);

/* -- shared.c: readers with shared memory ------------------------------------------------------------------------ */

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
