/*
 * Streams of results: any number of readers of a socket, or one that is standard output, a FIFO, or a `reply` client.
 *
 * Each reader walks the queue of results at its own pace, so that the slowest never delays another's bytes. A result is
 * released when no reader is on it any more. Under `block` it also needs one reader that took it, and a reader starts at
 * the first that nobody took, so that no reader is ever past an open one. Under `drop` the session may reclaim the oldest
 * slot: readers in mid-result take the rest into their own buffer and miss whole results until that is empty, the others
 * miss this one.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/sink_results.h"

enum { VECTORS = 16, WRITES_A_TURN = 16 };

#define BUMP(counter, by)                                                                                                      \
  atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (by), memory_order_relaxed)

static size_t total_bytes(const struct sink *sink) { return sink->prefix_bytes + sink->result_bytes; }

static bool has_rest(const struct reader *reader) { return reader->rest_at < reader->rest_end; }

/* -- the queue's end -------------------------------------------------------------------------------------------- */

/* The oldest result that some reader is still on. A reader that sends a rest is on none. */
static uint64_t oldest_needed(const struct sink *sink) {
  uint64_t oldest = sink_tail(sink);
  for (const struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (!has_rest(reader) && reader->at < oldest) {
      oldest = reader->at;
    }
  }
  return oldest;
}

/* Releases what no reader is on; under `block` only what one has taken. */
static void release(struct sink *sink, int64_t now) {
  uint64_t needed = oldest_needed(sink);
  while (sink->count > 0 && sink->first < needed) {
    struct result *result = sink_result(sink, sink->first);
    if (result->frame.open && sink->block) {
      return; /* it waits for a reader */
    }
    if (result->frame.open) {
      result_settle(result, FATE_UNREAD, now);
    }
    sink_release_first(sink);
  }
}

/* -- pending frames: their slot is gone, their rest is in readers' buffers ------------------------------------------ */

static void settle_pending(struct pending *pending, enum fate fate, int64_t now) {
  if (pending->frame.open) {
    struct result result = {.road = pending->road, .frame = pending->frame};
    result_settle(&result, fate, now);
    pending->frame = result.frame;
  }
}

/* The reader is done with its rest, or leaves it. */
static void drop_rest(struct sink *sink, struct reader *reader, bool taken, int64_t now) {
  struct pending *pending = reader->rest_of;
  reader->rest_at = reader->rest_end = 0;
  reader->rest_of = NULL;
  if (!pending) {
    return;
  }
  pending->holders--;
  if (taken || pending->holders == 0) {
    settle_pending(pending, taken ? FATE_EMITTED : FATE_UNREAD, now);
  }
  if (pending->holders == 0) {
    pending->next = sink->spares;
    sink->spares = pending;
  }
}

/* -- writing ------------------------------------------------------------------------------------------------------ */

static int add(struct iovec *vector, int count, const void *base, size_t length) {
  if (length > 0) {
    vector[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)base, .iov_len = length};
  }
  return count;
}

static int add_result(const struct sink *sink, const struct result *result, size_t sent, struct iovec *vector, int count) {
  if (sent < sink->prefix_bytes) {
    count = add(vector, count, sink->prefix + sent, sink->prefix_bytes - sent);
    sent = sink->prefix_bytes;
  }
  return add(vector, count, result->slot->output + (sent - sink->prefix_bytes), total_bytes(sink) - sent);
}

/* What this reader gets next: header, rest, then results. */
static int vector_for(struct sink *sink, const struct reader *reader, struct iovec vector[VECTORS]) {
  int count = add(vector, 0, sink->header + reader->header_at, sink->header_bytes - reader->header_at);
  if (has_rest(reader)) {
    return add(vector, count, reader->buffer + reader->rest_at, reader->rest_end - reader->rest_at);
  }
  size_t sent = reader->sent;
  for (uint64_t at = reader->at; at < sink_tail(sink) && count + 2 <= VECTORS; at++, sent = 0) {
    count = add_result(sink, sink_result(sink, at), sent, vector, count);
  }
  return count;
}

static void finish_result(struct sink *sink, struct reader *reader, int64_t now) {
  struct result *result = sink_result(sink, reader->at);
  reader->at++;
  reader->sent = 0;
  BUMP(reader->emitted, 1U);
  if (result->frame.open) {
    result_settle(result, FATE_EMITTED, now);
  }
}

static void advance(struct sink *sink, struct reader *reader, size_t written, int64_t now) {
  size_t part = sink->header_bytes - reader->header_at;
  part = part < written ? part : written;
  reader->header_at += part;
  written -= part;
  if (has_rest(reader)) {
    reader->rest_at += written;
    if (!has_rest(reader)) {
      BUMP(reader->emitted, 1U);
      drop_rest(sink, reader, true, now);
      reader->at = sink_tail(sink);
    }
    return;
  }
  while (written > 0) {
    size_t left = total_bytes(sink) - reader->sent;
    part = left < written ? left : written;
    reader->sent += part;
    written -= part;
    if (reader->sent == total_bytes(sink)) {
      finish_result(sink, reader, now);
    }
  }
}

static ssize_t write_some(const struct reader *reader, struct iovec *vector, int count) {
  if (!reader->is_socket) {
    return writev(reader->fd, vector, count);
  }
  struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)count};
  return sendmsg(reader->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void on_ready(uv_poll_t *poll, int status, int events);
static void depart(struct sink *sink, struct reader *reader, const char *why);

/* Polls for room only while there is something to send, and for the reader's end always. One that has half-closed says so
 * at every poll for that; then only its full end is of interest, which shows whatever is polled for: urgent data, as
 * long as it sends none. */
static void watch(struct reader *reader, bool wants_room) {
  int end = !reader->half_closed ? UV_DISCONNECT : !reader->urgent ? UV_PRIORITIZED : 0;
  int events = (wants_room ? UV_WRITABLE : 0) | end;
  if (events == reader->polled) {
    return;
  }
  reader->polled = events;
  if (events == 0) {
    uv_poll_stop(&reader->poll);
    return;
  }
  int status = uv_poll_start(&reader->poll, events, on_ready);
  if (status != 0) {
    depart(reader->sink, reader, uv_strerror(status));
  }
}

/* Writes what there is; true: the budget ended first. */
static bool serve(struct sink *sink, struct reader *reader) {
  for (int writes = 0; writes < WRITES_A_TURN; writes++) {
    struct iovec vector[VECTORS];
    int count = vector_for(sink, reader, vector);
    if (count == 0) {
      watch(reader, false);
      return false;
    }
    ssize_t written = write_some(reader, vector, count);
    if (written >= 0) {
      advance(sink, reader, (size_t)written, clock_now());
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      reader->writable = false;
      watch(reader, true);
      return false;
    } else if (errno != EINTR) {
      depart(sink, reader, errno == EPIPE || errno == ECONNRESET ? "" : strerror(errno));
      return false;
    }
  }
  return true;
}

static bool turn(struct sink *sink, int64_t now) {
  bool more = false;
  struct reader *next = NULL;
  for (struct reader *reader = sink->readers; reader; reader = next) {
    next = reader->next;
    if (reader->writable) {
      more |= serve(sink, reader);
    }
  }
  release(sink, now);
  return more;
}

static void offered(struct sink *sink) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (has_rest(reader)) {
      BUMP(reader->missed, 1U);
    }
  }
}

/* -- readers come and go ---------------------------------------------------------------------------------------------- */

static bool has_hung_up(int fd) {
  struct pollfd check = {.fd = fd};
  return poll(&check, 1, 0) > 0 && (check.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static void on_ready(uv_poll_t *poll, int status, int events) {
  struct reader *reader = poll->data;
  struct sink *sink = reader->sink;
  if (status < 0) {
    reader->polled = 0; /* libuv stopped it */
  }
  if (status < 0 || (events & (UV_DISCONNECT | UV_PRIORITIZED)) != 0) {
    if (has_hung_up(reader->fd)) {
      depart(sink, reader, "");
      return;
    }
    reader->half_closed = true;
    reader->urgent |= (events & UV_PRIORITIZED) != 0;
    watch(reader, !reader->writable);
  }
  if ((events & UV_WRITABLE) != 0) {
    reader->writable = true;
    lane_schedule(&sink->runner);
  }
}

static void finish_departure(struct sink *sink, struct reader *reader) {
  if (sink->gone) {
    close(reader->fd); /* a duplicate of the session's own: closing it waits for nothing */
    reader_free(reader);
  } else {
    reader->departure.event.fd = reader->fd;
    reader->departure.event.reader = reader;
    reader_read(reader, &reader->departure.event.emitted, &reader->departure.event.missed);
    sink_post(sink, &reader->departure);
  }
  if (sink->gone) {
    sink->gone(sink->session, ""); /* the session may be waiting for this */
  } else if (sink->stopping && sink->departing == 0) {
    sink_stopped(sink);
  }
}

static void on_reader_closed(uv_handle_t *handle) {
  struct reader *reader = handle->data;
  struct sink *sink = reader->sink;
  sink->departing--;
  finish_departure(sink, reader);
}

static void link_reader(struct sink *sink, struct reader *reader) {
  reader->next = sink->readers;
  reader->link = &sink->readers;
  if (reader->next) {
    reader->next->link = &reader->next;
  }
  sink->readers = reader;
  if (reader->spare) {
    reader->spare->next = sink->spares;
    sink->spares = reader->spare;
    reader->spare = NULL;
  }
}

static void unlink_reader(struct sink *sink, struct reader *reader) {
  *reader->link = reader->next;
  if (reader->next) {
    reader->next->link = reader->link;
  }
  if (!sink->block) {
    reader->spare = sink->spares; /* one for each reader: with its rest dropped, one is free */
    assert(reader->spare);
    sink->spares = reader->spare->next;
  }
}

/* Takes the reader off the queue and closes its handle; what it had not taken goes on without it. */
static void depart(struct sink *sink, struct reader *reader, const char *why) {
  if (reader->leaving) {
    return;
  }
  int64_t now = clock_now();
  reader->leaving = true;
  reader->departure.event = (struct sink_event){.kind = SINK_DETACHED};
  snprintf(reader->departure.event.text, sizeof reader->departure.event.text, "%s", why);
  drop_rest(sink, reader, false, now);
  unlink_reader(sink, reader);
  sink->departing++;
  uv_close((uv_handle_t *)&reader->poll, on_reader_closed);
  if (sink->gone && !sink->stopping) {
    sink->gone(sink->session, why);
  }
  release(sink, now);
  lane_schedule(&sink->runner);
}

/* A pipe of ours must not block the lane. */
static void make_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK) == 0) {
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  }
}

/* Where a reader starts under `block`: what nobody has taken yet may be left to this one alone, so that no result may
 * wait before all readers. */
static uint64_t first_untaken(struct sink *sink) {
  uint64_t at = sink->first;
  while (at < sink_tail(sink) && !sink_result(sink, at)->frame.open) {
    at++;
  }
  return at;
}

static void attach(struct sink *sink, struct reader *reader) {
  struct stat status;
  reader->is_socket = fstat(reader->fd, &status) == 0 && S_ISSOCK(status.st_mode);
  if (!reader->is_socket) {
    make_nonblocking(reader->fd);
  }
  int error = uv_poll_init(lane_loop(sink->lane), &reader->poll, reader->fd);
  if (error != 0) {
    reader->departure.event = (struct sink_event){.kind = SINK_DETACHED};
    snprintf(reader->departure.event.text, sizeof reader->departure.event.text, "%s", uv_strerror(error));
    finish_departure(sink, reader);
    return;
  }
  reader->poll.data = reader;
  reader->at = sink->block ? first_untaken(sink) : sink_tail(sink);
  reader->writable = true;
  link_reader(sink, reader);
  watch(reader, false);
  lane_schedule(&sink->runner);
}

void sink_detach_here(struct sink *sink) {
  while (sink->readers) {
    depart(sink, sink->readers, "");
  }
}

static void stop(struct sink *sink) {
  assert(sink->count == 0);
  sink_detach_here(sink);
  if (sink->departing == 0) {
    sink_stopped(sink);
  }
}

/* -- making room ------------------------------------------------------------------------------------------------------ */

/* The reader is in the middle of the oldest result: what it still needs of it moves to its own buffer. */
static void keep_rest(struct sink *sink, struct reader *reader, const struct result *result, struct pending *pending) {
  size_t prefix_left = reader->sent < sink->prefix_bytes ? sink->prefix_bytes - reader->sent : 0;
  size_t payload_at = reader->sent + prefix_left - sink->prefix_bytes;
  memcpy(reader->buffer, sink->prefix + (sink->prefix_bytes - prefix_left), prefix_left);
  memcpy(reader->buffer + prefix_left, result->slot->output + payload_at, sink->result_bytes - payload_at);
  reader->rest_at = 0;
  reader->rest_end = prefix_left + sink->result_bytes - payload_at;
  reader->rest_of = pending;
  if (pending) {
    pending->holders++;
  }
  BUMP(reader->missed, sink_tail(sink) - reader->at - 1); /* it misses what waits behind, too */
  reader->sent = 0;
}

static struct pending *take_over(struct sink *sink, struct result *result) {
  struct pending *pending = sink->spares;
  assert(pending);
  sink->spares = pending->next;
  *pending = (struct pending){.road = result->road, .frame = result->frame};
  result->frame.open = false;
  return pending;
}

static bool reclaim(struct sink *sink, int64_t now) {
  struct result *result = sink_result(sink, sink->first);
  struct pending *pending = NULL;
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (has_rest(reader) || reader->at != sink->first) {
      continue;
    }
    if (reader->sent == 0) {
      reader->at++;
      BUMP(reader->missed, 1U);
      continue;
    }
    if (result->frame.open) {
      pending = take_over(sink, result);
    }
    keep_rest(sink, reader, result, pending);
  }
  release(sink, now);
  return true;
}

static void discard(struct sink *sink, enum fate fate, int64_t now) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->rest_of) {
      settle_pending(reader->rest_of, fate, now);
    }
    reader->at = sink_tail(sink);
    reader->sent = 0;
  }
  while (sink->count > 0) {
    struct result *result = sink_result(sink, sink->first);
    if (result->frame.open) {
      result_settle(result, fate, now);
    }
    sink_release_first(sink);
  }
}

const struct sink_operations sink_stream_operations = {
    .offered = offered,
    .turn = turn,
    .stop = stop,
    .attach = attach,
    .reclaim = reclaim,
    .discard = discard,
};
