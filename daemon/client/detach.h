/*
 * Tells that a producer left: the log, and the producer itself where it may not know why.
 */
#ifndef FRAMED_CLIENT_DETACH_H
#define FRAMED_CLIENT_DETACH_H

#include "daemon/client/handshake.h"
#include "daemon/session/session.h"

/* `event` is a SESSION_DETACHED of a session of this pipeline, whose descriptor is still open. A producer that was cut off
 * because its stream is not what is expected counts as turned away; a file, which is no client, does not. */
void detach_log(const struct config_pipeline *pipeline, const struct session_event *event, const struct client *client,
                struct refusals *refusals);
/* Tells the producer why it was cut off, if it may not know. `shared`: the producer's connection carries no results. */
void detach_tell(const struct config_pipeline *pipeline, const struct session_event *event, const struct client *client,
                 bool shared);

#endif
