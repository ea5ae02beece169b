/*
 * Shared by the files of a sink with readers. rest.c frees slots that slow readers hold, reader.c makes, polls and ends a
 * reader, readers.c writes. All of it runs on the sink's lane.
 */
#ifndef FRAMED_SINK_READERS_H
#define FRAMED_SINK_READERS_H

#include "daemon/sink/results.h"

/* Under `drop`, how many ticks of its lane a reader may hold a slot or buffer that is needed. Counting ticks leaves out time in
 * which the process was stopped. */
enum { HOLD_TICKS = 10, TICK_MS = 100 };

/* -- rest.c --------------------------------------------------------------------------------------------------- */

bool readers_reclaim(struct sink *sink, int64_t now);
uint64_t readers_discard(struct sink *sink, enum fate fate, int64_t now);
/* Reserves the buffer that the reader may need for the rest of the result it begins. Returns false if none is free. */
bool readers_take_room(struct sink *sink, struct reader *reader);
/* The reader is between two results, or leaves. */
void readers_return_room(struct sink *sink, struct reader *reader);
/* The reader has sent its rest (`taken`), or drops it. */
void readers_drop_rest(struct sink *sink, struct reader *reader, bool taken, int64_t now);

/* -- reader.c ------------------------------------------------------------------------------------------------- */

void readers_stop(struct sink *sink);
void readers_detach(struct sink *sink); /* all readers */
/* Unlinks the reader and closes its handle. Its remaining results no longer wait. */
void reader_depart(struct sink *sink, struct reader *reader, const char *why);
/* Ends a reader whose handle is closed, or was never opened: reports it to the control loop, or with `reply` frees it. */
void reader_finish_departure(struct sink *sink, struct reader *reader);
/* Polls for the reader's end, and with `wants_room` for room in its socket. */
void reader_watch(struct reader *reader, bool wants_room);

/* -- shared.c: readers with shared memory ------------------------------------------------------------------------ */

/* Starts polling a reader that was just attached. Returns 0 or an error of libuv. */
int shared_attach(struct reader *reader);
/* Dismisses readers that hold a needed slot for too long. */
void shared_tick(struct sink *sink, int64_t now);
/* Reads the doorbell, takes back consumed results, and leases new ones. Returns true to run again without sleeping. */
bool shared_turn(struct sink *sink, struct reader *reader, int64_t now);
/* Takes back results that readers consumed without ringing. Called before another reader attaches. */
void shared_collect(struct sink *sink, int64_t now);

#endif
