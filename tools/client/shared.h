/* Shared by both files of the shared transport: shared.c sends and waits, shared_completions.c receives. */
#ifndef FRAMED_TOOLS_CLIENT_SHARED_H
#define FRAMED_TOOLS_CLIENT_SHARED_H

#include "tools/client/client.h"

/* True for a producer that only wants its slots back and does not receive the fates of its frames. */
static inline bool is_silent(const struct framed *client) { return client->info.role == FRAMED_PRODUCER && !client->fates; }
static inline bool is_consumer(const struct framed *client) { return client->info.role == FRAMED_CONSUMER; }

/* -- shared_completions.c ---------------------------------------------------------------------------------------------- */

/* Wakes a sleeping daemon after a cursor has moved. */
void shared_ring(const struct framed *client);
/* Frees the lots of lost connections that have no unread completion and no held place. */
void shared_drop_spent(struct framed *client);
/* The oldest lot with an unread completion; NULL: no lot has one. */
struct lot *shared_with_results(struct framed *client);
/* Releases all completions of a silent producer. */
void shared_take_all(struct framed *client);

/* Parts of the transport. */
bool shared_receive(struct framed *client, struct framed_result *result);
void shared_release(struct framed *client, unsigned place);
void shared_lose(struct framed *client);

#endif
