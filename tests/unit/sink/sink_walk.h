/*
 * A sink with readers on a real lane, and the road of a session before it, for walks at random. Every other time `block` has
 * its session on another lane than the sink's, as far as the sink can tell: the test's thread is it.
 */
#ifndef FRAMED_TESTS_UNIT_ROAD_SINK_WALK_H
#define FRAMED_TESTS_UNIT_ROAD_SINK_WALK_H

#include "daemon/frame/relay.h"
#include "daemon/sink/results.h"
#include "tests/unit/chance.h"

extern uv_loop_t loop;
extern struct sink *sink;
extern struct flow flow;
extern struct account account;
extern uint64_t offered; /* results so far; each has its number in its bytes */
extern bool stopped;     /* the sink is; for the listener to set */

/* Calls `walk` so often, each time with another seed. */
void sink_walks(unsigned runs, uint64_t seed, void (*walk)(void));

/* Makes the sink, whose overload it chooses, and a road of one to four slots. `config` outlives them. */
void sink_walk_begin(struct config_pipeline *config, const struct frame_format *format, sink_listener *listener);
/* Stops the sink, runs the loop until it has stopped, and frees all that. */
void sink_walk_end(void);

void on_lane(void (*function)(void));    /* the sink's */
void on_session(void (*function)(void)); /* where the road is */

/* A byte of a result. */
unsigned char byte_of(uint64_t number, size_t at);
/* [session] This frame is the next result. False: there is no free slot, and under `block` the sink gives none back. */
bool offer_frame(struct frame frame);

/* One turn of the sink and one of the session, after which every frame is in one place. */
void turn(void);
/* Whether results are on their way. */
bool are_in_flight(void);

/* Attaches a reader, with the number of its first result: under `block` the first one that nobody took. */
uint64_t attach(struct reader *reader);
/* The test's end of a connection with little room, whose other end a reader gets. */
int connect_reader(struct reader **reader);

/* [lane] Every frame has its fate: emitted those that somebody has `seen`, and at most so many others. */
void check_fates(const bool *seen, uint64_t others);
/* [lane] What it took and what it missed is all that was offered since it joined. */
void check_reader(const struct reader *reader, uint64_t taken, uint64_t next, uint64_t joined);
unsigned slots_set_aside(void);

#endif
