/*
 * Sources that are files. A regular file or standard input is there from the start; a FIFO has one writer after another. A FIFO
 * without a writer reads as ended, so it is not read until a writer comes. A writer without any reader gets SIGPIPE, so the
 * FIFO is opened again before it is closed.
 */
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_table.h"

enum { RETRY_MS = 1000, DISCARD = 64 * 1024, DISCARDS_A_TURN = 64 };

void inputs_attach_file(struct inputs *inputs) {
  const struct client file = {.fd = inputs->endpoint.fd};
  inputs->endpoint.fd = -1;
  inputs_attach_producer(inputs, &inputs->seats[0], &file);
}

/* Discards available bytes. Returns true if the writer has gone. */
static bool fifo_discard(const struct inputs *inputs) {
  char bytes[DISCARD];
  ssize_t got = sizeof bytes;
  for (int reads = 0; got > 0 && reads < DISCARDS_A_TURN; reads++) {
    got = read(inputs->endpoint.fd, bytes, sizeof bytes);
  }
  return got == 0;
}

/* After a kill the position in this writer's bytes is unknown. It cannot be disconnected, because the next writer uses the same
 * FIFO. So its bytes are discarded until it ends. */
static void on_discarded(struct inputs *inputs) {
  if (!fifo_discard(inputs)) {
    return;
  }
  log_event(LOG_DISCONNECTED, inputs->config->name,
            "the writer that was cut off has closed the FIFO '%s': its bytes are no longer discarded",
            inputs->config->source.path);
  int fd = inputs->endpoint.fd;
  inputs->discards = false;
  inputs->endpoint.fd = -1;
  inputs->fifo = loop_watch_close(inputs->fifo);
  inputs_await_next_writer(inputs);
  close(fd);
  fd_table_mark();
}

static void on_writer(void *context) {
  struct inputs *inputs = context;
  if (inputs->discards) {
    on_discarded(inputs);
    return;
  }
  inputs->fifo = loop_watch_close(inputs->fifo);
  inputs_attach_file(inputs);
}

bool inputs_follow_name(struct inputs *inputs) {
  int left = 0;
  bool gone;
  const char *path = inputs->config->source.path;
  if (!inputs->continues || !endpoint_has_moved(path, inputs->endpoint.fd, &gone) ||
      ioctl(inputs->endpoint.fd, FIONREAD, &left) != 0 || left > 0) {
    return false;
  }
  log_event(LOG_MOVED, inputs->config->name, "'%s' was created again: it is read from now on", path);
  endpoint_close(&inputs->endpoint);
  inputs->discards = false; /* a writer of the new FIFO starts with a complete frame */
  inputs_await_next_writer(inputs);
  fd_table_mark();
  return true;
}

bool inputs_await_writer(struct inputs *inputs, struct failure *failure) {
  /* the writer may be gone already, and the next one starts with a complete frame */
  inputs->discards = inputs->discards && !fifo_discard(inputs);
  inputs->fifo = loop_watch_new(inputs->loop, inputs->endpoint.fd, on_writer, inputs);
  if (!inputs->fifo) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot watch the FIFO '%s'", inputs->config->source.path);
  }
  loop_watch_start(inputs->fifo);
  return true;
}

static bool fifo_open(struct inputs *inputs, struct failure *failure) {
  struct endpoint opened;
  if (!endpoint_open_source(&inputs->config->source, &opened, failure)) {
    return false;
  }
  if (opened.kind != ENDPOINT_FIFO) {
    endpoint_close(&opened);
    return failure_set(failure, EXIT_STATUS_CONFIG, NULL, "'%s' is no FIFO any more", inputs->config->source.path);
  }
  inputs->endpoint = opened;
  trouble_clear(&inputs->trouble);
  if (!inputs_await_writer(inputs, failure)) {
    endpoint_close(&inputs->endpoint);
    return false;
  }
  return true;
}

static void on_retry(void *context) {
  struct inputs *inputs = context;
  struct failure failure;
  if (fifo_open(inputs, &failure)) {
    inputs->retry = loop_timer_close(inputs->retry);
  }
}

void inputs_await_next_writer(struct inputs *inputs) {
  struct failure failure;
  if (fifo_open(inputs, &failure)) {
    return;
  }
  trouble_note(&inputs->trouble, clock_now(), failure.remedy, "the FIFO cannot be opened for the next writer: %s",
               failure.text);
  log_event(LOG_CLIENT_ERROR, inputs->config->name, "the FIFO cannot be opened for the next writer, which is tried again: %s",
            failure.text);
  inputs->retry = loop_timer_new(inputs->loop, on_retry, inputs);
  inputs->ended = inputs->retry == NULL;
  if (inputs->retry) {
    loop_timer_start(inputs->retry, RETRY_MS, RETRY_MS);
  }
}
