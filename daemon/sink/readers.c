/*
 * A sink with readers: any number on a socket, or one (standard output, a FIFO, the client of `reply`).
 *
 * Problem. Readers differ in speed. A fast reader must not wait for a slow one, and under `drop` the pipeline must not either.
 * Under `block` nothing may be lost, also while no reader is connected.
 *
 * Idea. Each reader walks the queue of results at its own pace, with a position and a number of bytes sent. Results are not
 * copied for a reader; they stay in the slot in which the device wrote them. A result is released when no reader needs it.
 *
 * Under `block` a result also needs one reader that took it. A new reader starts at the first result that nobody took. So the
 * slowest reader sets the pace, and a sink without readers stops the pipeline.
 *
 * Under `drop` the session may reclaim the oldest slot (rest.c). A reader in the middle of that result moves the remaining
 * bytes to a buffer of its own. It misses whole results until the buffer is sent. Readers that had not begun with the result
 * miss it.
 *
 * Invariants.
 * - No reader is past an open result under `block`.
 * - A reader gets whole results only. It loses complete results, never part of one, and `dropped` in the next native result
 *   says how many.
 * - The number of buffers is limited by `slow_readers`, so a slow reader cannot make the daemon allocate.
 * - A reader's mark is set while the bytes written and this record may differ. After a kill, a marked reader is disconnected.
 *
 * One thread that reads and writes sockets carries half of what two threads do (measured: 3.0 to 3.7 GB/s against 6.2 to 6.5).
 * So with large results under `block` a sink runs on another lane than its session (frame/relay.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "daemon/sink/leases.h"
#include "daemon/sink/readers.h"

enum { VECTORS = 16, WRITES_A_TURN = 16 };

/* Results of this size or more are written one at a time, so that each slot is free before the next result is written. */
enum { LARGE_RESULT = 256 * 1024 };

/* Maximum bytes of large results that may wait in the socket of a lossless reader. */
enum { MOST_ROOM = 512 * 1024 };

/* -- writing ----------------------------------------------------------------------------------------------------------- */

static int add_part(struct iovec *vector, int count, const void *base, size_t length) {
  if (length > 0) {
    vector[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)base, .iov_len = length};
  }
  return count;
}

static int add_result(struct reader *reader, uint64_t index, size_t sent, struct iovec *vector, int count) {
  struct payload payload = result_payload(sink_result(reader->sink, index));
  const unsigned char *prefix;
  size_t prefix_bytes = reader_prefix(reader, index, &prefix);
  if (sent < prefix_bytes) {
    count = add_part(vector, count, prefix + sent, prefix_bytes - sent);
    sent = prefix_bytes;
  }
  return add_part(vector, count, payload.bytes + (sent - prefix_bytes), prefix_bytes + payload.count - sent);
}

/* The next bytes for this reader: header, rest, then results. The header waits for the first result, because it has the frame
 * rate. */
static int vector_for(struct sink *sink, struct reader *reader, struct iovec vector[VECTORS]) {
  if (reader->header_at == 0) {
    reader_set_header(reader, reader->at < sink->tail ? sink_result(sink, reader->at) : NULL);
  }
  int count = add_part(vector, 0, reader->header + reader->header_at, reader->header_bytes - reader->header_at);
  if (reader_has_rest(reader)) {
    return add_part(vector, count, reader->room->bytes + reader->rest.at, reader->rest.end - reader->rest.at);
  }
  size_t sent = reader->sent;
  bool alone = sink->result_bytes >= LARGE_RESULT;
  for (uint64_t at = reader->at; at < sink->tail && count + 2 <= VECTORS && !(alone && at > reader->at); at++, sent = 0) {
    count = add_result(reader, at, sent, vector, count);
  }
  return count;
}

static void finish_result(struct sink *sink, struct reader *reader, int64_t now) {
  struct result *result = sink_result(sink, reader->at);
  reader->at++;
  reader->sent = 0;
  reader->skipped = 0;
  READER_COUNT(reader->emitted, 1U);
  if (result->state == RESULT_OPEN) {
    result_settle(result, FATE_EMITTED, now);
  }
}

static void advance(struct sink *sink, struct reader *reader, size_t written, int64_t now) {
  size_t part = reader->header_bytes - reader->header_at;
  reader->stalled = 0;
  part = part < written ? part : written;
  reader->header_at += part;
  written -= part;
  if (reader_has_rest(reader)) {
    reader->rest.at += written;
    if (!reader_has_rest(reader)) {
      READER_COUNT(reader->emitted, 1U);
      readers_drop_rest(sink, reader, true, now);
      reader->at = sink->tail;
    }
    return;
  }
  const unsigned char *unused;
  size_t prefix_bytes = result_prefix(&sink->results[0], reader->protocol, &unused);
  while (written > 0) {
    size_t whole = prefix_bytes + result_payload(sink_result(sink, reader->at)).count;
    size_t left = whole - reader->sent;
    part = left < written ? left : written;
    reader->sent += part;
    written -= part;
    if (reader->sent == whole) {
      finish_result(sink, reader, now);
    }
  }
}

/* True if there is something to send: the end of the header, a rest, or a result. */
static bool has_output(const struct sink *sink, const struct reader *reader) {
  bool in_header = reader->header_at > 0 && reader->header_at < reader->header_bytes;
  return reader->at < sink->tail || in_header || reader_has_rest(reader);
}

/* Writes once. Returns false if nothing more can be done for the reader now. */
static bool write_once(struct sink *sink, struct reader *reader) {
  struct iovec vector[VECTORS];
  if (!readers_take_room(sink, reader)) {
    reader_watch(reader, false);
    return false; /* a turn follows when another reader returns its buffer */
  }
  int count = vector_for(sink, reader, vector);
  const struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)count};
  mark_set(&reader->mark);
  ssize_t written =
      reader->is_socket ? sendmsg(reader->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) : writev(reader->fd, vector, count);
  if (written >= 0) {
    int64_t now = clock_now();
    advance(sink, reader, (size_t)written, now);
    mark_clear(&reader->mark);
    if (sink->relay) {
      sink_release(sink, now); /* the session on the other lane may be waiting for the slot */
    }
    return true;
  }
  mark_clear(&reader->mark);
  bool has_no_room = errno == EAGAIN || errno == EWOULDBLOCK;
  if (has_no_room || errno == ENOBUFS || errno == ENOMEM) {
    reader->state = has_no_room ? READER_FULL : READER_STARVED;
    reader_watch(reader, has_no_room);
    return false;
  }
  if (errno != EINTR) {
    reader_depart(sink, reader, errno == EPIPE || errno == ECONNRESET ? "" : strerror(errno));
    return false;
  }
  return true;
}

/* Writes results to the reader. Returns true if the budget of this turn ended first. */
static bool write_results(struct sink *sink, struct reader *reader) {
  for (int writes = 0; has_output(sink, reader); writes++) {
    if (writes == WRITES_A_TURN) {
      return true;
    }
    if (!write_once(sink, reader)) {
      return false;
    }
  }
  reader_watch(reader, false);
  return false;
}

/* -- arrival ----------------------------------------------------------------------------------------------------------- */

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
  if (!sink->block) {
    sink->rooms.readers += !reader->shared;
    sink->rooms.count += reader->room != NULL;
    if (reader->sent == 0 && !reader_has_rest(reader)) {
      readers_return_room(sink, reader);
    }
  }
}

/* Start position under `block`: the first result that no reader has taken. This reader may be the only one, and an open result
 * that all readers are past would wait for ever. */
static uint64_t first_untaken(struct sink *sink) {
  uint64_t at = sink->first;
  while (at < sink->tail && sink_result(sink, at)->state != RESULT_OPEN) {
    at++;
  }
  return at;
}

/* A socket reports room only when three quarters of its buffer are free. With the default size this comes too late for large
 * results: the reader then waits once every 150 KiB. A size that the system does not allow is ignored. */
static void widen_socket(const struct sink *sink, const struct reader *reader) {
  int room = (int)(sink->result_bytes < MOST_ROOM ? sink->result_bytes : MOST_ROOM);
  if (reader->is_socket && sink->block && room >= LARGE_RESULT) {
    setsockopt(reader->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  }
}

static void tick_rooms(struct sink *sink) {
  struct reader *next = NULL;
  for (struct reader *reader = sink->rooms.wanted ? sink->readers : NULL; reader; reader = next) {
    next = reader->next;
    if (reader->room && ++reader->stalled > HOLD_TICKS) {
      char why[128];
      snprintf(why, sizeof why, "it took no byte of a result for more than %d ms while others needed the room for its rest",
               HOLD_TICKS * TICK_MS);
      reader_depart(sink, reader, why);
    }
  }
  if (sink->rooms.wanted) {
    sink->rooms.wanted = false; /* a reader that still finds none sets it again */
    lane_schedule(&sink->runner);
  }
}

static void readers_tick(struct runner *runner, int64_t now) {
  struct sink *sink = (struct sink *)runner;
  shared_tick(sink, now);
  tick_rooms(sink);
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->state == READER_STARVED) {
      reader->state = READER_WRITABLE;
      lane_schedule(runner);
    }
  }
}

static void readers_attach(struct sink *sink, struct reader *reader) {
  struct stat status;
  reader->is_socket = fstat(reader->fd, &status) == 0 && S_ISSOCK(status.st_mode);
  int error = uv_poll_init(lane_loop(sink->lane), &reader->poll, reader->fd); /* from here on the descriptor is non-blocking */
  if (error != 0) {
    if (sink->reply.gone) {
      sink->reply.gone(sink->reply.session, false, uv_strerror(error)); /* the session must not wait for its reader for ever */
    }
    reader->departure.event = (struct sink_event){.kind = SINK_DETACHED};
    snprintf(reader->departure.event.text, sizeof reader->departure.event.text, "%s", uv_strerror(error));
    readers_drop_rest(sink, reader, false, clock_now());
    if (reader->shared) {
      leases_leave(sink, reader, clock_now());
    }
    reader_finish_departure(sink, reader);
    return;
  }
  reader->poll.data = reader;
  shared_collect(sink, clock_now());
  if (!reader->continues) {
    reader->at = sink->block ? first_untaken(sink) : sink->tail;
  }
  reader->state = READER_WRITABLE;
  reader->listened_to = reader->is_socket && !reader->shared && !sink->reply.gone;
  sink->runner.tick = readers_tick;
  widen_socket(sink, reader);
  link_reader(sink, reader);
  error = reader->shared ? shared_attach(reader) : 0;
  if (error != 0) {
    reader_depart(sink, reader, uv_strerror(error));
    return;
  }
  if (!reader->shared) {
    reader_watch(reader, false);
  }
  lane_schedule(&sink->runner);
}

/* -- the kind ---------------------------------------------------------------------------------------------------------- */

static bool readers_turn(struct sink *sink, int64_t now) {
  bool more = false;
  struct reader *next = NULL;
  for (struct reader *reader = sink->readers; reader; reader = next) {
    next = reader->next;
    if (reader->shared) {
      more |= shared_turn(sink, reader, now);
    } else if (reader->state == READER_WRITABLE) {
      more |= write_results(sink, reader);
      if (!reader->leaving && reader->sent == 0 && !reader_has_rest(reader)) {
        readers_return_room(sink, reader);
      }
    }
  }
  sink_release(sink, now);
  return more;
}

static void readers_offered(struct sink *sink) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader_has_rest(reader)) {
      mark_set(&reader->mark);
      reader_miss(reader, sink->tail - 1);
      mark_clear(&reader->mark);
    }
  }
}

const struct sink_operations sink_readers_operations = {
    .offered = readers_offered,
    .turn = readers_turn,
    .stop = readers_stop,
    .attach = readers_attach,
    .detach = readers_detach,
    .reclaim = readers_reclaim,
    .discard = readers_discard,
};
