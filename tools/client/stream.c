/*
 * The stream transport: frames and results are copied through the connection, from and to the client's own memory.
 *
 * Frames are sent in the order of their submission. Results are read into any free place. Reading continues while a frame waits
 * to be sent: the daemon may wait until its results are read, and would never accept that frame.
 *
 * A client that may reconnect keeps sent frames until a RESULT or an ACK reports their fate. A new connection sends all kept
 * frames again, and its results begin at a message.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tools/client/client.h"

static bool takes_results(const struct framed *client) { return client->info.role != FRAMED_PRODUCER; }
static bool sends_frames(const struct framed *client) { return client->info.role != FRAMED_CONSUMER; }

static bool stream_open(struct framed *client) {
  struct stream *stream = &client->stream;
  unsigned slots = client->info.slots;
  stream->result_places = slots > 1 ? slots : 2; /* one is filled while the other is sent */
  stream->filling = -1;
  client->lot = lot_new(client, client->keeps ? slots + 2 : stream->result_places);
  if (!client->lot) {
    return false;
  }
  if ((sends_frames(client) && !region_make(&client->lot->inputs, client->lot->places, client->info.input_bytes)) ||
      (takes_results(client) && !region_make(&client->lot->outputs, stream->result_places, client->info.output_bytes))) {
    return client_break(client, FRAMED_E_SYSTEM, errno, "no memory for %u frames of pipeline %s", client->lot->places,
                        client->info.pipeline);
  }
  return true;
}

/* -- what is kept ------------------------------------------------------------------------------------------------------ */

static unsigned char *queued_at(struct stream *stream, unsigned n) { return &stream->queue[(stream->first + n) % MOST_PLACES]; }

static void release_first(struct framed *client) {
  struct stream *stream = &client->stream;
  client->lot->frames[*queued_at(stream, 0)] = PLACE_FREE;
  stream->first = (stream->first + 1) % MOST_PLACES;
  stream->queued--;
  stream->kept--;
  stream->released++;
}

/* Releases the frames whose fate the daemon reported, but only frames that were sent. */
static void release_kept(struct framed *client) {
  struct stream *stream = &client->stream;
  uint64_t fated = stream->acked > stream->answered ? stream->acked : stream->answered;
  while (stream->kept > 0 && (!client->keeps || stream->released < fated)) {
    release_first(client);
  }
}

/* Kept frames are sent again over the next connection, which counts from 0. */
static void stream_lose(struct framed *client) {
  struct stream *stream = &client->stream;
  for (unsigned i = 0; i < stream->kept; i++) {
    stream->stamps[*queued_at(stream, i)].flags |= NATIVE_AGAIN;
  }
  stream->kept = 0;
  stream->sent = 0;
  stream->released = stream->answered = stream->acked = 0;
  stream->cannot_send = stream->shut = false;
  if (stream->filling >= 0) {
    stream->results[stream->filling] = PLACE_FREE;
    stream->filling = -1;
  }
}

static void stream_end(struct framed *client) { client->stream.ended = true; }

static bool stream_resume(struct framed *client) {
  (void)client; /* nothing depends on the last connection */
  return true;
}

/* -- frames out -------------------------------------------------------------------------------------------------------- */

static struct iovec rest_of(void *bytes, size_t count, size_t *done) {
  size_t skipped = *done < count ? *done : count;
  *done -= skipped;
  return (struct iovec){.iov_base = (unsigned char *)bytes + skipped, .iov_len = count - skipped};
}

/* Sends part of the first unsent frame. Returns -1 with errno, or the number of bytes. */
static ssize_t send_first(struct framed *client) {
  struct stream *stream = &client->stream;
  unsigned index = *queued_at(stream, stream->kept);
  unsigned char head[FRAME_BYTES];
  const struct native_header header = {
      .magic = NATIVE_MAGIC, .type = NATIVE_FRAME, .length = sizeof(struct native_frame) + client->info.input_bytes};
  memcpy(head, &header, sizeof header);
  memcpy(head + sizeof header, &stream->stamps[index], sizeof stream->stamps[index]);
  size_t done = stream->sent;
  struct iovec parts[2];
  parts[0] = rest_of(head, sizeof head, &done);
  parts[1] = rest_of(client->lot->inputs.base + index * client->lot->inputs.stride, client->info.input_bytes, &done);
  const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  return sendmsg(client->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void shut_when_sent(struct framed *client) {
  struct stream *stream = &client->stream;
  if (client->finished && !client->paused && stream->queued == stream->kept && !stream->shut) {
    shutdown(client->fd, SHUT_WR);
    stream->shut = true;
  }
}

static void send_frames(struct framed *client) {
  struct stream *stream = &client->stream;
  while (stream->queued > stream->kept && !stream->cannot_send && !client->broken && !client->paused) {
    ssize_t count = send_first(client);
    if (count < 0) {
      if (errno == EPIPE || errno == ECONNRESET) {
        stream->cannot_send = true; /* the daemon may have sent the reason, which is read next */
      } else if (errno != EAGAIN && errno != EINTR) {
        client_break(client, FRAMED_E_SYSTEM, errno, "cannot send to pipeline %s", client->info.pipeline);
      }
      return;
    }
    stream->sent += (size_t)count;
    if (stream->sent == FRAME_BYTES + client->info.input_bytes) {
      stream->sent = 0;
      stream->kept++;
      release_kept(client);
    }
  }
  shut_when_sent(client);
}

static void stream_submit(struct framed *client, struct lot *lot, unsigned index, const struct native_frame *stamp) {
  struct stream *stream = &client->stream;
  (void)lot; /* the stream transport has only one lot */
  stream->stamps[index] = *stamp;
  *queued_at(stream, stream->queued) = (unsigned char)index;
  stream->queued++;
  send_frames(client);
}

/* -- results in -------------------------------------------------------------------------------------------------------- */

static int free_place(const struct stream *stream) {
  for (unsigned i = 0; i < stream->result_places; i++) {
    if (stream->results[i] == PLACE_FREE) {
      return (int)i;
    }
  }
  return -1;
}

/* Begins a result whose header is complete and which has a free place. */
static void begin_payload(struct framed *client) {
  struct stream *stream = &client->stream;
  stream->filling = free_place(stream);
  memcpy(&stream->heads[stream->filling], client->message.bytes + sizeof(struct native_header), sizeof stream->heads[0]);
  stream->results[stream->filling] = PLACE_AWAY;
  stream->filled = 0;
  client->message.count = 0;
}

/* A result settles its own frame and the frames that were dropped since the previous result. */
static void end_payload(struct framed *client) {
  struct stream *stream = &client->stream;
  const struct native_result *head = &stream->heads[stream->filling];
  if (reconnect_is_new(client, head->flags)) {
    stream->results[stream->filling] = PLACE_READY;
    stream->ready[(stream->first_ready + stream->count_ready) % FRAMED_MAX_SLOTS] = (unsigned char)stream->filling;
    stream->count_ready++;
  } else {
    stream->results[stream->filling] = PLACE_FREE;
  }
  stream->filling = -1;
  stream->answered += head->dropped < UINT32_MAX ? head->dropped + 1 : 1;
  release_kept(client);
}

static void take_ack(struct framed *client) {
  struct native_ack ack;
  struct message *message = &client->message;
  memcpy(&ack, message->bytes + sizeof(struct native_header), sizeof ack);
  message->count -= ACK_BYTES;
  memmove(message->bytes, message->bytes + ACK_BYTES,
          message->count); /* of the next message, which was read as part of a result */
  client->stream.acked = ack.frames;
  release_kept(client);
}

static void take_in(struct framed *client, size_t count) {
  struct stream *stream = &client->stream;
  if (stream->filling >= 0) {
    size_t missing = client->info.output_bytes - stream->filled;
    size_t own = count < missing ? count : missing;
    stream->filled += own;
    count -= own;
    if (own == missing) {
      end_payload(client);
    }
  }
  client->message.count += count;
}

/* Plans a read: the rest of the payload, and the header of the next message. */
static size_t plan_read(struct framed *client, size_t wanted, struct iovec parts[2]) {
  struct stream *stream = &client->stream;
  struct message *message = &client->message;
  size_t payload = 0;
  if (stream->filling >= 0) {
    payload = client->info.output_bytes - stream->filled;
    parts[0].iov_base = client->lot->outputs.base + (unsigned)stream->filling * client->lot->outputs.stride + stream->filled;
  } else {
    parts[0].iov_base = message->bytes; /* of length 0 */
  }
  parts[0].iov_len = payload;
  parts[1] = (struct iovec){message->bytes + message->count, wanted - message->count};
  return payload + parts[1].iov_len;
}

static void handle_close(struct framed *client) {
  struct stream *stream = &client->stream;
  bool between = stream->filling < 0 && client->message.count == 0;
  bool done = sends_frames(client) ? stream->shut && !stream->cannot_send && stream->queued == 0 : !client->keeps;
  if (between && done) {
    stream->ended = true;
  } else {
    client->reconnect.quietly = between && !sends_frames(client);
    client_break(client, FRAMED_E_CLOSED, 0, "the daemon closed the connection to pipeline %s%s", client->info.pipeline,
                 between ? "" : " within a result");
  }
}

/* True if the next message can be stored: a result needs a free place. */
static bool may_read(const struct framed *client) {
  const struct stream *stream = &client->stream;
  return !client->broken && !stream->ended && (!takes_results(client) || stream->filling >= 0 || free_place(stream) >= 0);
}

/* Handles a complete header. False: it is not complete, or it ends the connection. */
static bool take_head(struct framed *client, size_t wanted) {
  if (client->broken || client->message.count < wanted) {
    return false;
  }
  if (message_type(client) == NATIVE_RESULT) {
    begin_payload(client);
    return true;
  }
  if (message_type(client) == NATIVE_ACK) {
    take_ack(client);
    return true;
  }
  return client_break_by_error(client, &client->message);
}

/* False: nothing can be read now. */
static bool read_once(struct framed *client) {
  size_t wanted = message_wanted(client);
  if (take_head(client, wanted)) {
    return true;
  }
  if (client->broken) {
    return false;
  }
  /*
   * Assume a RESULT, since most messages are results. An ERROR is the last message, and take_ack() keeps the bytes after an
   * ACK.
   */
  size_t head = client->message.count < sizeof(struct native_header) && takes_results(client) ? RESULT_BYTES : wanted;
  struct iovec parts[2];
  size_t room = plan_read(client, head, parts);
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t got = recvmsg(client->fd, &message, MSG_DONTWAIT);
  if (got > 0) {
    take_in(client, (size_t)got);
    return (size_t)got == room || room <= RESULT_BYTES;
  }
  if (got == 0 || errno == ECONNRESET) {
    handle_close(client);
  } else if (errno != EAGAIN && errno != EINTR) {
    client_break(client, FRAMED_E_SYSTEM, errno, "cannot read from pipeline %s", client->info.pipeline);
  }
  return false;
}

static void read_results(struct framed *client) {
  while (may_read(client) && read_once(client)) {
  }
}

static bool stream_receive(struct framed *client, struct framed_result *result) {
  struct stream *stream = &client->stream;
  if (stream->count_ready == 0) {
    return false;
  }
  unsigned place = stream->ready[stream->first_ready];
  const struct native_result *head = &stream->heads[place];
  stream->first_ready = (stream->first_ready + 1) % FRAMED_MAX_SLOTS;
  stream->count_ready--;
  stream->results[place] = PLACE_HELD;
  *result = (struct framed_result){.data = client->lot->outputs.base + place * client->lot->outputs.stride,
                                   .size = client->info.output_bytes,
                                   .sequence = head->sequence,
                                   .dropped = head->dropped,
                                   .timestamp = head->timestamp,
                                   .session = head->session,
                                   .flags = head->flags & ~NATIVE_MARK,
                                   .number = head->number,
                                   .epoch = head->epoch,
                                   .place = place};
  memcpy(result->steps, head->steps, sizeof result->steps);
  return true;
}

static void stream_release(struct framed *client, unsigned place) {
  if (place < client->stream.result_places && client->stream.results[place] == PLACE_HELD) {
    client->stream.results[place] = PLACE_FREE;
  }
}

/* -- both ways --------------------------------------------------------------------------------------------------------- */

static bool stream_has_room(const struct framed *client) {
  const struct lot *lot = client->lot;
  for (unsigned i = 0; i < lot->places && sends_frames(client) && !client->finished; i++) {
    if (lot->frames[i] == PLACE_FREE) {
      return true;
    }
  }
  return false;
}

static unsigned stream_events(struct framed *client) {
  const struct stream *stream = &client->stream;
  return (stream->count_ready > 0 ? FRAMED_RESULT : 0U) | (stream_has_room(client) ? FRAMED_ROOM : 0U) |
         (stream->ended && stream->count_ready == 0 ? FRAMED_END : 0U);
}

static unsigned stream_look(struct framed *client) {
  struct stream *stream = &client->stream;
  send_frames(client);
  read_results(client);
  if (stream->cannot_send && stream->count_ready == 0 && !may_read(client)) {
    client_break(client, FRAMED_E_CLOSED, 0, "the daemon closed the connection to pipeline %s", client->info.pipeline);
  }
  return stream_events(client);
}

static short stream_arm(struct framed *client) {
  const struct stream *stream = &client->stream;
  return (short)((may_read(client) ? POLLIN : 0) | (stream->queued > stream->kept && !stream->cannot_send ? POLLOUT : 0));
}

/* The connection ended, and no place is free to read its last results. A consumer that reconnects must not lose them. */
static void stream_wake(struct framed *client, short conditions) {
  bool may_lose = sends_frames(client) || !client->keeps;
  if ((conditions & (POLLHUP | POLLERR)) != 0 && !may_read(client) && may_lose) {
    client->stream.cannot_send = true;
  }
}

const struct transport stream_transport = {
    .open = stream_open,
    .look = stream_look,
    .events = stream_events,
    .arm = stream_arm,
    .wake = stream_wake,
    .has_room = stream_has_room,
    .submit = stream_submit,
    .receive = stream_receive,
    .release = stream_release,
    .finish = shut_when_sent,
    .lose = stream_lose,
    .end = stream_end,
    .resume = stream_resume,
};
