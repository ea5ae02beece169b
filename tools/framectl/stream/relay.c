#include "tools/framectl/stream/relay.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/framectl/common/interrupt.h"
#include "tools/framectl/common/progress.h"
#include "tools/framectl/common/text.h"

enum { LAST_WRITES_MS = 500 };

static bool is_empty(const struct relay *relay) { return relay->start == relay->end; }

static bool wants_to_read(const struct relay *relay) {
  return relay->state == RELAY_MOVING && !relay->source_ended && relay->end < RELAY_BUFFER && !interrupt_came();
}

static bool wants_to_write(const struct relay *relay) { return relay->state == RELAY_MOVING && !is_empty(relay); }

static bool try_again(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static void fail(struct relay *relay, enum relay_state state) {
  relay->state = state;
  relay->error = errno;
}

static void remember(struct relay *relay, const char *bytes, size_t count) {
  if (relay->taken < RELAY_FIRST) {
    size_t room = RELAY_FIRST - (size_t)relay->taken;
    memcpy(relay->first + relay->taken, bytes, count < room ? count : room);
  }
}

/* Counts complete lines up to the limit. Returns the offset after the last counted one. */
static size_t take_lines(struct relay *relay, const char *bytes, size_t count) {
  const char *newline = NULL;
  for (size_t at = 0; at < count && (newline = memchr(bytes + at, '\n', count - at)); at = (size_t)(newline - bytes) + 1) {
    relay->lines++;
    if (relay->lines == relay->limit) {
      return (size_t)(newline - bytes) + 1;
    }
  }
  return count;
}

static void read_in(struct relay *relay) {
  size_t room = RELAY_BUFFER - relay->end;
  if (relay->limit > 0 && !relay->by_line && relay->limit - relay->taken < room) {
    room = (size_t)(relay->limit - relay->taken);
  }
  ssize_t count = read(relay->from, relay->buffer + relay->end, room);
  if (count < 0) {
    if (!try_again()) {
      fail(relay, RELAY_READ_FAILED);
    }
    return;
  }
  if (relay->by_line) {
    count = (ssize_t)take_lines(relay, relay->buffer + relay->end, (size_t)count);
  }
  remember(relay, relay->buffer + relay->end, (size_t)count);
  relay->end += (size_t)count;
  relay->taken += (uint64_t)count;
  relay->source_ended = count == 0 || (relay->limit > 0 && (relay->by_line ? relay->lines : relay->taken) == relay->limit);
}

static void write_out(struct relay *relay) {
  size_t waiting = relay->end - relay->start;
  if (interrupt_came() && waiting > PIPE_BUF) { /* a ready pipe accepts that much without blocking */
    waiting = PIPE_BUF;
  }
  ssize_t count = relay->to < 0 ? (ssize_t)waiting : write(relay->to, relay->buffer + relay->start, waiting);
  if (count < 0) {
    if (!try_again()) {
      fail(relay, RELAY_WRITE_FAILED);
    }
    return;
  }
  relay->start += (size_t)count;
  relay->moved += (uint64_t)count;
  if (is_empty(relay)) {
    relay->start = relay->end = 0;
  }
}

static void end_if_done(struct relay *relay) {
  if (relay->state == RELAY_MOVING && relay->source_ended && is_empty(relay)) {
    if (relay->shut) {
      shutdown(relay->to, SHUT_WR);
    }
    relay->state = RELAY_ENDED;
  }
}

/* Negative descriptors make poll() ignore an entry. False: there is nothing to wait for. */
static bool poll_all(struct relay *relays, unsigned count, struct pollfd *ready) {
  bool interrupted = interrupt_came(), any = false;
  for (unsigned i = 0; i < count; i++) {
    bool writes = wants_to_write(&relays[i]);
    ready[2 * i] = (struct pollfd){.fd = wants_to_read(&relays[i]) ? relays[i].from : -1, .events = POLLIN};
    ready[2 * i + 1] = (struct pollfd){.fd = writes ? relays[i].to : -1, .events = POLLOUT};
    any = any || writes;
  }
  ready[2 * count] = (struct pollfd){.fd = interrupted ? -1 : interrupt_descriptor(), .events = POLLIN};
  int events = poll(ready, 2 * count + 1, interrupted ? LAST_WRITES_MS : -1);
  for (unsigned i = 0; events < 0 && i < 2 * count; i++) {
    ready[i].revents = 0;
  }
  return !interrupted || (any && events != 0);
}

static void step(struct relay *relay, const struct pollfd *from, const struct pollfd *to) {
  if (from->revents) {
    read_in(relay);
  }
  if (wants_to_write(relay) && (to->revents || relay->to < 0)) {
    write_out(relay);
  }
  end_if_done(relay);
}

static bool go_on(const struct relay *relays, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    if (relays[i].state == RELAY_READ_FAILED || relays[i].state == RELAY_WRITE_FAILED) {
      return false;
    }
  }
  return relays[count - 1].state == RELAY_MOVING;
}

static void show_progress(const struct relay *relay, struct progress *progress) {
  char bytes[TEXT_ROOM];
  if (relay->verb) {
    progress_show(progress, -1, "%s: %s", relay->verb, text_bytes(bytes, (double)relay->moved));
  }
}

bool relay_run(struct relay *relays, unsigned count) {
  struct progress progress;
  bool fine = true;
  progress_begin(&progress);
  for (unsigned i = 0; i < count; i++) {
    relays[i].buffer = malloc(RELAY_BUFFER);
    fine = fine && relays[i].buffer;
  }
  while (fine && go_on(relays, count)) {
    struct pollfd ready[2 * RELAY_MAX + 1];
    if (!poll_all(relays, count, ready)) {
      break;
    }
    for (unsigned i = 0; i < count; i++) {
      step(&relays[i], &ready[2 * i], &ready[2 * i + 1]);
      show_progress(&relays[i], &progress);
    }
  }
  progress_clear(&progress);
  for (unsigned i = 0; i < count; i++) {
    free(relays[i].buffer);
    relays[i].buffer = NULL;
  }
  return fine;
}

void relay_read_rest(struct relay *relay) {
  char bytes[RELAY_FIRST];
  ssize_t count;
  while (relay->taken < RELAY_FIRST && (count = recv(relay->from, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    remember(relay, bytes, (size_t)count);
    relay->taken += (uint64_t)count;
  }
}
