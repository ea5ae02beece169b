/*
 * One reader: making, polling and ending it, and the buffer for a rest that it brings along.
 *
 * A reader that is not a file is polled for its end while it is attached, and for room while it has bytes to send. It leaves in
 * two steps: it is unlinked at once, and returned after libuv has closed its handle.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/measure/clock.h"
#include "daemon/sink/leases.h"
#include "daemon/sink/readers.h"

enum { INPUT_A_TURN = 16 * 1024 };

struct reader *reader_new(struct sink *sink, int fd, struct failure *failure) {
  struct reader *reader = image_new(IMAGE_READER, sizeof *reader);
  if (reader && !sink->block) {
    reader->spare = image_new(IMAGE_PENDING, sizeof *reader->spare);
  }
  if (!reader || (!sink->block && !reader->spare)) {
    failure_set_memory(failure, "no memory for a reader");
    return image_free(reader);
  }
  reader->sink = sink;
  reader->fd = fd;
  reader->segment.index = -1;
  reader->protocol = sink->protocol;
  return reader;
}

size_t sink_room_bytes(const struct sink *sink) { return sink->block ? 0 : NATIVE_RESULT_BYTES + sink->result_bytes; }

bool reader_make_room(struct reader *reader) {
  if (!reader->room) {
    reader->room = image_new(IMAGE_ROOM, sizeof *reader->room + sink_room_bytes(reader->sink));
    reader->sink->rooms.made += reader->room != NULL;
  }
  return reader->room;
}

bool reader_bring_room(struct reader *reader, struct failure *failure) {
  const struct sink *sink = reader->sink;
  bool is_needed = !sink->block && !reader->shared && sink->rooms.made < sink->rooms.most;
  return !is_needed || reader_make_room(reader) ||
         failure_set_memory(failure, "no memory for a buffer of %zu bytes for a slow reader", sink->result_bytes);
}

void reader_drop_room(struct reader *reader) {
  reader->sink->rooms.made -= reader->room != NULL;
  reader->room = image_free(reader->room);
}

struct reader *reader_free(struct reader *reader) {
  if (reader) {
    image_free(reader->shared);
    reader_drop_room(reader);
    image_free(reader->spare);
  }
  return image_free(reader);
}

void reader_set_protocol(struct reader *reader, enum config_protocol protocol) { reader->protocol = protocol; }

void reader_read(const struct reader *reader, uint64_t *emitted, uint64_t *missed) {
  *emitted = atomic_load_explicit(&reader->emitted, memory_order_relaxed);
  *missed = atomic_load_explicit(&reader->missed, memory_order_relaxed);
}

void reader_keep_index(struct reader *reader, int index, uint64_t count, const struct segment_times *times) {
  const int64_t now = clock_now(), every = reader->sink->file.every_ns;
  reader->segment.index = index;
  reader->segment.count = count;
  reader->segment.hold = now + times->hold_ns;
  /* if the next segment could not begin before, it is attempted again even without a result */
  bool is_over = times->hold_ns > 0 || (every > 0 && times->began == 0);
  reader->segment.until = is_over ? now : every == 0 ? 0 : times->began + every;
  reader->segment.shift = times->shift;
}

int reader_index(const struct reader *reader, uint64_t *count) {
  *count = reader->segment.count;
  return reader->segment.index;
}

/* -- the poll ---------------------------------------------------------------------------------------------------------- */

static void reader_on_ready(uv_poll_t *poll, int status, int events);

/* A reader that half-closed its connection would wake every poll for its end. Then only the full end matters, which epoll
 * always reports. So the poll is for urgent data, which never comes again. */
void reader_watch(struct reader *reader, bool wants_room) {
  static const int ends[] = {[READER_CONNECTED] = UV_DISCONNECT, [READER_HALF_CLOSED] = UV_PRIORITIZED, [READER_URGENT] = 0};
  int events = (wants_room ? UV_WRITABLE : 0) | (reader->listened_to ? UV_READABLE : 0) | ends[reader->end];
  if (events == reader->polled) {
    return;
  }
  reader->polled = events;
  if (events == 0) {
    uv_poll_stop(&reader->poll);
    return;
  }
  int status = uv_poll_start(&reader->poll, events, reader_on_ready);
  if (status != 0) {
    reader_depart(reader->sink, reader, uv_strerror(status));
  }
}

static bool has_hung_up(int fd) {
  struct pollfd check = {.fd = fd};
  return poll(&check, 1, 0) > 0 && (check.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/* The input may contain descriptors, even the other end of this connection, which would never end if the daemon kept it. Input
 * that remains after one read wakes the poll again. */
static void throw_away_input(struct reader *reader) {
  char bytes[INPUT_A_TURN];
  ssize_t got = rights_read(reader->fd, &(struct iovec){.iov_base = bytes, .iov_len = sizeof bytes}, 1);
  reader->listened_to = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static void reader_on_ready(uv_poll_t *poll, int status, int events) {
  struct reader *reader = poll->data;
  struct sink *sink = reader->sink;
  if (status < 0) {
    reader->polled = 0; /* libuv stopped the poll */
  }
  if ((events & UV_READABLE) != 0 && reader->listened_to) {
    throw_away_input(reader);
  }
  if (status < 0 || (events & (UV_DISCONNECT | UV_PRIORITIZED)) != 0) {
    if (has_hung_up(reader->fd)) {
      reader_depart(sink, reader, "");
      return;
    }
    char byte;
    if ((events & UV_PRIORITIZED) != 0 && recv(reader->fd, &byte, sizeof byte, MSG_OOB | MSG_DONTWAIT) < 0) {
      reader->end = READER_URGENT; /* otherwise the byte was read now, so that it no longer wakes every poll */
    } else if (reader->end == READER_CONNECTED) {
      reader->end = READER_HALF_CLOSED;
    }
  }
  reader_watch(reader, reader->state != READER_WRITABLE);
  if ((events & UV_WRITABLE) != 0) {
    reader->state = READER_WRITABLE;
    lane_schedule(&sink->runner);
  }
}

/* -- departure --------------------------------------------------------------------------------------------------------- */

static void unlink_reader(struct sink *sink, struct reader *reader) {
  *reader->link = reader->next;
  if (reader->next) {
    reader->next->link = reader->link;
  }
  if (!sink->block) {
    reader->spare = sink->spares; /* each reader contributed one, and this reader's rest is dropped, so one is free */
    assert(reader->spare);
    sink->spares = reader->spare->next;
    readers_return_room(sink, reader);
    sink->rooms.readers -= !reader->shared;
    if (sink->rooms.count > sink->rooms.readers) { /* each remaining reader has a buffer, so more would be useless */
      reader->room = sink->rooms.free;
      assert(reader->room);
      sink->rooms.free = reader->room->next;
      sink->rooms.count--;
    }
  }
}

void reader_finish_departure(struct sink *sink, struct reader *reader) {
  if (sink->reply.gone) {
    close(reader->fd); /* a duplicate of the session's own descriptor, so this never blocks */
    reader_free(reader);
  } else {
    reader->departure.event.fd = reader->fd;
    reader->departure.event.reader = reader;
    reader->departure.event.code = reader->final_error;
    reader_read(reader, &reader->departure.event.emitted, &reader->departure.event.missed);
    sink_post(sink, &reader->departure);
  }
  if (sink->reply.gone) {
    sink->reply.gone(sink->reply.session, true, ""); /* the session may be waiting for this */
  } else if (sink->stopping && sink->departing == 0) {
    sink_stopped(sink);
  }
}

static void on_reader_closed(uv_handle_t *handle) {
  struct reader *reader = handle->data;
  struct sink *sink = reader->sink;
  sink->departing--;
  reader_finish_departure(sink, reader);
}

void reader_depart(struct sink *sink, struct reader *reader, const char *why) {
  if (reader->leaving) {
    return;
  }
  int64_t now = clock_now();
  reader->leaving = true;
  reader->departure.event = (struct sink_event){.kind = SINK_DETACHED};
  snprintf(reader->departure.event.text, sizeof reader->departure.event.text, "%s", why);
  readers_drop_rest(sink, reader, false, now);
  if (reader->shared) {
    leases_leave(sink, reader, now);
  }
  unlink_reader(sink, reader);
  sink->departing++;
  uv_close((uv_handle_t *)&reader->poll, on_reader_closed);
  if (sink->reply.gone && !sink->stopping) {
    sink->reply.gone(sink->reply.session, false, why);
  }
  sink_release(sink, now);
  lane_schedule(&sink->runner);
}

void readers_detach(struct sink *sink) {
  while (sink->readers) {
    reader_depart(sink, sink->readers, "");
  }
}

void readers_stop(struct sink *sink) {
  assert(sink_count(sink) == 0);
  readers_detach(sink);
  if (sink->departing == 0) {
    sink_stopped(sink);
  }
}
