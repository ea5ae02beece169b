/*
 * How readers leave: each is polled for its end as long as it is attached, and for room while bytes wait for it.
 *
 * A reader leaves in two steps: it is taken off the queue at once, and given back when libuv has let go of its handle.
 */
#include "daemon/sink/readers.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/sink/loans.h"

enum { INPUT_A_TURN = 16 * 1024 };

/* -- the poll ---------------------------------------------------------------------------------------------------------- */

static void reader_on_ready(uv_poll_t *poll, int status, int events);

/* A reader that has half-closed its connection wakes every poll for its end. From then on only the full end is of interest,
 * which epoll tells whatever is polled for: so the poll is for urgent data, of which there is none any more. */
void reader_watch(struct reader *reader, bool wants_room) {
  int end = !reader->half_closed ? UV_DISCONNECT : !reader->urgent ? UV_PRIORITIZED : 0;
  int events = (wants_room ? UV_WRITABLE : 0) | (reader->listened_to ? UV_READABLE : 0) | end;
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

/* Among what a reader sends may be descriptors, even the other end of this very connection, which would never end if it were
 * kept. What is left after one read wakes the poll again. */
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
    reader->half_closed = true;
    if ((events & UV_PRIORITIZED) != 0) { /* a byte of urgent data would wake every poll: it is taken out, if it can be */
      char byte;
      reader->urgent |= recv(reader->fd, &byte, sizeof byte, MSG_OOB | MSG_DONTWAIT) < 0;
    }
  }
  reader_watch(reader, !reader->writable);
  if ((events & UV_WRITABLE) != 0) {
    reader->writable = true;
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
    reader->spare = sink->spares; /* there is one for each reader: as the rest of this one is dropped, one is free */
    assert(reader->spare);
    sink->spares = reader->spare->next;
    readers_return_room(sink, reader);
    sink->reader_count -= !reader->borrower;
    if (sink->room_count > sink->reader_count) { /* each that stays has a piece, so that further ones are of no use */
      reader->room = sink->rooms;
      assert(reader->room);
      sink->rooms = reader->room->next;
      sink->room_count--;
    }
  }
}

void reader_finish_departure(struct sink *sink, struct reader *reader) {
  if (sink->gone) {
    close(reader->fd); /* a duplicate of the session's own descriptor: closing it waits for nothing */
    reader_free(reader);
  } else {
    reader->departure.event.fd = reader->fd;
    reader->departure.event.reader = reader;
    reader->departure.event.code = reader->farewell;
    reader_read(reader, &reader->departure.event.emitted, &reader->departure.event.missed);
    sink_post(sink, &reader->departure);
  }
  if (sink->gone) {
    sink->gone(sink->session, true, ""); /* the session may be waiting for this */
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
  if (reader->borrower) {
    loans_leave(sink, reader, now);
  }
  unlink_reader(sink, reader);
  sink->departing++;
  uv_close((uv_handle_t *)&reader->poll, on_reader_closed);
  if (sink->gone && !sink->stopping) {
    sink->gone(sink->session, false, why);
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
