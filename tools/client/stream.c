/*
 * The stream transport: frames are copied into the connection and results out of it, by memory of the client's own.
 *
 * Frames are sent in the order of their submission, and results are read to whatever place is free. Reading goes on while
 * a frame waits to be sent, or the daemon, which waits for its results to be read, would never take that frame.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tools/client/client.h"

static bool takes_results(const struct framed *client) { return client->info.role != FRAMED_PRODUCER; }
static bool sends_frames(const struct framed *client) { return client->info.role != FRAMED_CONSUMER; }

bool stream_open(struct framed *client) {
  struct stream *stream = &client->stream;
  client->transport = &stream_transport;
  stream->places = client->info.slots > 1 ? client->info.slots : 2; /* one fills while the other is on its way */
  stream->filling = -1;
  if ((sends_frames(client) && !region_make(&client->inputs, stream->places, client->info.input_bytes)) ||
      (takes_results(client) && !region_make(&client->outputs, stream->places, client->info.output_bytes))) {
    return client_break(client, FRAMED_E_SYSTEM, errno, "no memory for %u frames of pipeline %s", stream->places,
                        client->info.pipeline);
  }
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
  unsigned index = stream->queue[stream->first];
  unsigned char head[FRAME_BYTES];
  const struct native_header header = {
      .magic = NATIVE_MAGIC, .type = NATIVE_FRAME, .length = sizeof(struct native_frame) + client->info.input_bytes};
  memcpy(head, &header, sizeof header);
  memcpy(head + sizeof header, &stream->stamps[index], sizeof stream->stamps[index]);
  size_t done = stream->sent;
  struct iovec parts[2];
  parts[0] = rest_of(head, sizeof head, &done);
  parts[1] = rest_of(client->inputs.base + index * client->inputs.stride, client->info.input_bytes, &done);
  const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  return sendmsg(client->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void shut_when_sent(struct framed *client) {
  struct stream *stream = &client->stream;
  if (client->finished && stream->queued == 0 && !stream->shut) {
    shutdown(client->fd, SHUT_WR);
    stream->shut = true;
  }
}

static void send_frames(struct framed *client) {
  struct stream *stream = &client->stream;
  while (stream->queued > 0 && !stream->cannot_send && !client->broken) {
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
      client->frames[stream->queue[stream->first]] = PLACE_FREE;
      stream->first = (stream->first + 1) % FRAMED_MAX_SLOTS;
      stream->queued--;
      stream->sent = 0;
    }
  }
  shut_when_sent(client);
}

static void submit(struct framed *client, unsigned index, const struct native_frame *stamp) {
  struct stream *stream = &client->stream;
  stream->stamps[index] = *stamp;
  stream->queue[(stream->first + stream->queued) % FRAMED_MAX_SLOTS] = (unsigned char)index;
  stream->queued++;
  send_frames(client);
}

/* -- results in -------------------------------------------------------------------------------------------------------- */

static int free_place(const struct stream *stream) {
  for (unsigned i = 0; i < stream->places; i++) {
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

static void end_payload(struct framed *client) {
  struct stream *stream = &client->stream;
  stream->results[stream->filling] = PLACE_READY;
  stream->ready[(stream->first_ready + stream->count_ready) % FRAMED_MAX_SLOTS] = (unsigned char)stream->filling;
  stream->count_ready++;
  stream->filling = -1;
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
    parts[0].iov_base = client->outputs.base + (unsigned)stream->filling * client->outputs.stride + stream->filled;
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
  if (between && (!sends_frames(client) || (stream->shut && !stream->cannot_send))) {
    stream->ended = true;
  } else {
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
  if (wanted == RESULT_BYTES && message_is_result(client)) {
    begin_payload(client);
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
  /* A result is the rule, and an ERROR is the last that comes: so nothing is taken that belongs to something else. */
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

static bool receive(struct framed *client, struct framed_result *result) {
  struct stream *stream = &client->stream;
  if (stream->count_ready == 0) {
    return false;
  }
  unsigned place = stream->ready[stream->first_ready];
  const struct native_result *head = &stream->heads[place];
  stream->first_ready = (stream->first_ready + 1) % FRAMED_MAX_SLOTS;
  stream->count_ready--;
  stream->results[place] = PLACE_HELD;
  *result = (struct framed_result){.data = client->outputs.base + place * client->outputs.stride,
                                   .size = client->info.output_bytes,
                                   .sequence = head->sequence,
                                   .dropped = head->dropped,
                                   .timestamp = head->timestamp,
                                   .session = head->session,
                                   .flags = head->flags,
                                   .place = place};
  memcpy(result->steps, head->steps, sizeof result->steps);
  return true;
}

static void release(struct framed *client, unsigned place) {
  if (place < client->stream.places && client->stream.results[place] == PLACE_HELD) {
    client->stream.results[place] = PLACE_FREE;
  }
}

/* -- both ways --------------------------------------------------------------------------------------------------------- */

static bool has_room(const struct framed *client) {
  for (unsigned i = 0; i < client->stream.places && sends_frames(client) && !client->finished; i++) {
    if (client->frames[i] == PLACE_FREE) {
      return true;
    }
  }
  return false;
}

static unsigned look(struct framed *client) {
  struct stream *stream = &client->stream;
  send_frames(client);
  read_results(client);
  if (stream->cannot_send && stream->count_ready == 0 && !may_read(client)) {
    client_break(client, FRAMED_E_CLOSED, 0, "the daemon closed the connection to pipeline %s", client->info.pipeline);
  }
  return (stream->count_ready > 0 ? FRAMED_RESULT : 0U) | (has_room(client) ? FRAMED_ROOM : 0U) |
         (stream->ended && stream->count_ready == 0 ? FRAMED_END : 0U);
}

static short arm(struct framed *client) {
  const struct stream *stream = &client->stream;
  return (short)((may_read(client) ? POLLIN : 0) | (stream->queued > 0 && !stream->cannot_send ? POLLOUT : 0));
}

/* An end that shows while there is no place to read what came before it. */
static void wake(struct framed *client, short conditions) {
  if ((conditions & (POLLHUP | POLLERR)) != 0 && !may_read(client)) {
    client->stream.cannot_send = true;
  }
}

const struct transport stream_transport = {look, arm, wake, submit, receive, release, shut_when_sent};
