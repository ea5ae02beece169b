/*
 * Tells a producer on the stream transport that asked for it which of its frames have their fate.
 *
 * One number a turn says it for all of them. With `reply` results go the same way, perhaps from another lane, so nothing is
 * said while one is on its way; a result also says it for all frames before it. A client that does not read is told later.
 */
#include <errno.h>
#include <sys/socket.h>

#include "daemon/session/private.h"

static bool is_between_messages(const struct session *session) {
  return !session->is_reply || (session->flow.at_sink == 0 && session->client_there && !session->client_gone);
}

bool session_owes_acknowledgement(const struct session *session) {
  return session->acknowledges && session->source.state != SOURCE_NONE && session->source.state != SOURCE_CLOSING &&
         acks_count(&session->account.acks, session->receive.producer) > session->acknowledged;
}

void session_acknowledge(struct session *session) {
  const struct flow *flow = &session->flow;
  unsigned char bytes[NATIVE_ACK_BYTES];
  if (!session_owes_acknowledgement(session) || !is_between_messages(session)) {
    return;
  }
  uint64_t frames = acks_count(&session->account.acks, session->receive.producer);
  if (session->is_reply && flow->offered_producer == session->receive.producer && flow->offered_sequence + 1 >= frames) {
    session->acknowledged = frames; /* its last result said so */
    return;
  }
  native_write_ack(frames, bytes);
  /* So few bytes go as a whole or not at all. Who has gone is told nothing more; for anything else the tick tries again. */
  bool sent = send(session->source.fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  if (sent || errno == EPIPE || errno == ECONNRESET) {
    session->acknowledged = frames;
  }
}
