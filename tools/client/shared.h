/* What the two files of the shared transport have in common: shared.c sends and waits, shared_completions.c takes what
 * comes. */
#ifndef FRAMED_TOOLS_CLIENT_SHARED_H
#define FRAMED_TOOLS_CLIENT_SHARED_H

#include "tools/client/client.h"

/* A producer that only wants its slots back, and no word of what became of its frames. */
static inline bool is_silent(const struct framed *client) { return client->info.role == FRAMED_PRODUCER && !client->fates; }
static inline bool is_consumer(const struct framed *client) { return client->info.role == FRAMED_CONSUMER; }

/* -- shared_completions.c ---------------------------------------------------------------------------------------------- */

/* Wakes a daemon that sleeps, after a cursor was written. */
void shared_ring(const struct framed *client);
/* Frees lots of daemons that are gone and of which nobody wants anything any more. */
void shared_drop_spent(struct framed *client);
/* The oldest lot with a completion that the caller, or a producer's slots, wait for; NULL: there is none. */
struct lot *shared_with_results(struct framed *client);
/* Of one that only wants its slots back. */
void shared_take_all(struct framed *client);

/* Parts of the transport. */
bool shared_receive(struct framed *client, struct framed_result *result);
void shared_release(struct framed *client, unsigned place);
void shared_lose(struct framed *client);

#endif
