/*
 * The stream transport: frames are copied into the connection and results out of it, by memory of the client's own.
 *
 * Frames are sent in the order of their submission, and results are read to whatever place is free. Reading goes on while
 * a frame waits to be sent, or the daemon, which waits for its results to be read, would never take that frame.
 *
 * A client that may connect again keeps what it has sent until a RESULT or an ACK says that it has its fate. On another
 * connection all that is kept is to be sent, and results begin with whole messages.
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
  stream->result_places = slots > 1 ? slots : 2; /* one fills while the other is on its way */
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

/* As the daemon said by now, but nothing that it cannot have. */
static void release_kept(struct framed *client) {
  struct stream *stream = &client->stream;
  uint64_t fated = stream->told > stream->answered ? stream->told : stream->answered;
  while (stream->kept > 0 && (!client->keeps || stream->released < fated)) {
    release_first(client);
  }
}

/* What was sent and has no fate is sent again by the next connection, on which everything is counted from 0. */
static void stream_lose(struct framed *client) {
  struct stream *stream = &client->stream;
  for (unsigned i = 0; i < stream->kept; i++) {
    stream->stamps[*queued_at(stream, i)].flags |= NATIVE_AGAIN;
  }
  stream->kept = 0;
  stream->sent = 0;
  stream->released = stream->answered = stream->told = 0;
  stream->cannot_send = stream->shut = false;
  if (stream->filling >= 0) {
    stream->results[stream->filling] = PLACE_FREE;
    stream->filling = -1;
  }
}

static void stream_end(struct framed *client) { client->stream.ended = true; }

static bool stream_resume(struct framed *client) {
  (void)client; /* nothing of the last connection's is left */
  return true;
}

/* -- frames out -------------------------------------------------------------------------------------------------------- */

static struct iovec rest_of(void *bytes, size_t count, size_t *done) {
  size_t skipped = *done < count ? *done : count;
  *done -= skipped;
  return (struct iovec){.iov_base = (unsigned char *)bytes + skipped, .iov_len = count - skipped};
}

/* As much of the first frame as the connection takes: -1 with errno, or so many bytes. */
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
        stream->cannot_send = true; /* why, the daemon may have said: that is read next */
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
  (void)lot; /* there is only one */
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

/* What stands before a result is there, and so is a place for it. */
static void begin_payload(struct framed *client) {
  struct stream *stream = &client->stream;
  stream->filling = free_place(stream);
  memcpy(&stream->heads[stream->filling], client->message.bytes + sizeof(struct native_header), sizeof stream->heads[0]);
  stream->results[stream->filling] = PLACE_AWAY;
  stream->filled = 0;
  client->message.count = 0;
}

/* A result says of its frame, and of those before it that have none, that they have their fate. */
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
  memmove(message->bytes, message->bytes + ACK_BYTES, message->count); /* of what follows, which was taken for a result */
  client->stream.told = ack.frames;
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

/* What is to be read next: the rest of a payload, and of the head of what follows it. */
static size_t plan_read(struct framed *client, size_t wanted, struct iovec parts[2]) {
  struct stream *stream = &client->stream;
  struct message *message = &client->message;
  size_t payload = 0;
  if (stream->filling >= 0) {
    payload = client->info.output_bytes - stream->filled;
    parts[0].iov_base = client->lot->outputs.base + (unsigned)stream->filling * client->lot->outputs.stride + stream->filled;
  } else {
    parts[0].iov_base = message->bytes; /* of no bytes */
  }
  parts[0].iov_len = payload;
  parts[1] = (struct iovec){message->bytes + message->count, wanted - message->count};
  return payload + parts[1].iov_len;
}

static void hear_end(struct framed *client) {
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

/* Whether what is at hand is not in want of a place. */
static bool may_read(const struct framed *client) {
  const struct stream *stream = &client->stream;
  return !client->broken && !stream->ended && (!takes_results(client) || stream->filling >= 0 || free_place(stream) >= 0);
}

/* Deals with a head that has come. False: it has not yet, or ends everything. */
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
  return client_told(client, &client->message);
}

/* False: there is no more for now. */
static bool read_once(struct framed *client) {
  size_t wanted = message_wanted(client);
  if (take_head(client, wanted)) {
    return true;
  }
  if (client->broken) {
    return false;
  }
  /* A result is the rule, an ERROR is the last that comes, and an ACK leaves what was read behind it. */
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
    hear_end(client);
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

/* An end that shows while there is no place to read what came before it. What a consumer does not read would be lost. */
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
