/*
 * Reports that a producer left: to the log, and to the producer if it may not know the reason.
 */
#ifndef FRAMED_CLIENT_DETACH_H
#define FRAMED_CLIENT_DETACH_H

#include "daemon/client/handshake.h"
#include "daemon/session/session.h"

/* `event` is a SESSION_DETACHED of a session of this pipeline, whose descriptor is still open. A producer that is disconnected
 * because of its stream counts as refused. A file does not, because it is no client. */
void detach_log(const struct config_pipeline *pipeline, const struct session_event *event, const struct client *client,
                struct refusals *refusals);
/* Sends the producer the reason, if it may not know it. `shared`: its connection carries no results. */
void detach_notify(const struct config_pipeline *pipeline, const struct session_event *event, const struct client *client,
                   bool shared);

#endif
