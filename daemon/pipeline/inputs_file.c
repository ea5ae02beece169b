/*
 * Sources that are files. A regular one, standard input and the like are there from the start; a FIFO has one writer after the
 * other. A FIFO that nobody has opened for writing reads as ended, so it is left alone until a writer comes. The next writer
 * needs a reader at all times, or it would get SIGPIPE, so the FIFO is opened anew before it is closed.
 */
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/pipeline/inputs_private.h"
#include "daemon/state/fd_store.h"

enum { RETRY_MS = 1000, DISCARD = 64 * 1024, DISCARDS_A_TURN = 64 };

void intake_attach_file(struct intake *intake) {
  const struct guest file = {.fd = intake->endpoint.fd};
  intake->endpoint.fd = -1;
  intake_seat_down(intake, &intake->seats[0], &file);
}

/* Throws away what there is; true: its writer has gone. */
static bool discard(const struct intake *intake) {
  char bytes[DISCARD];
  ssize_t got = sizeof bytes;
  for (int reads = 0; got > 0 && reads < DISCARDS_A_TURN; reads++) {
    got = read(intake->endpoint.fd, bytes, sizeof bytes);
  }
  return got == 0;
}

/* A writer of which nobody knows how far it was read cannot be cut off, since the next one comes through the same FIFO: what it
 * writes is thrown away until it ends. */
static void on_discarded(struct intake *intake) {
  if (!discard(intake)) {
    return;
  }
  log_event(LOG_DISCONNECTED, intake->config->name,
            "the writer that was cut off has closed the FIFO '%s': nothing more is thrown away", intake->config->source.path);
  int fd = intake->endpoint.fd;
  intake->discards = false;
  intake->endpoint.fd = -1;
  intake->fifo = loop_watch_close(intake->fifo);
  intake_await_next_writer(intake);
  close(fd);
  keeper_mark();
}

static void on_writer(void *context) {
  struct intake *intake = context;
  if (intake->discards) {
    on_discarded(intake);
    return;
  }
  intake->fifo = loop_watch_close(intake->fifo);
  intake_attach_file(intake);
}

bool intake_follow_name(struct intake *intake) {
  int left = 0;
  bool gone;
  const char *path = intake->config->source.path;
  if (!intake->continues || !endpoint_has_moved(path, intake->endpoint.fd, &gone) ||
      ioctl(intake->endpoint.fd, FIONREAD, &left) != 0 || left > 0) {
    return false;
  }
  log_event(LOG_MOVED, intake->config->name, "somebody has made '%s' anew: it is read from now on", path);
  endpoint_close(&intake->endpoint);
  intake->discards = false; /* nobody comes through the new one whose frames are not whole */
  intake_await_next_writer(intake);
  keeper_mark();
  return true;
}

bool intake_await_writer(struct intake *intake, struct failure *failure) {
  intake->discards = intake->discards && !discard(intake); /* there may be none any more, and the next one is another */
  intake->fifo = loop_watch_new(intake->loop, intake->endpoint.fd, on_writer, intake);
  if (!intake->fifo) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot watch the FIFO '%s'", intake->config->source.path);
  }
  loop_watch_start(intake->fifo);
  return true;
}

static bool open_fifo(struct intake *intake, struct failure *failure) {
  struct endpoint opened;
  if (!endpoint_open_source(&intake->config->source, &opened, failure)) {
    return false;
  }
  if (opened.kind != ENDPOINT_FIFO) {
    endpoint_close(&opened);
    return failure_set(failure, EXIT_STATUS_CONFIG, NULL, "'%s' is no FIFO any more", intake->config->source.path);
  }
  intake->endpoint = opened;
  if (!intake_await_writer(intake, failure)) {
    endpoint_close(&intake->endpoint);
    return false;
  }
  return true;
}

static void on_retry(void *context) {
  struct intake *intake = context;
  struct failure failure;
  if (open_fifo(intake, &failure)) {
    intake->retry = loop_timer_close(intake->retry);
  }
}

void intake_await_next_writer(struct intake *intake) {
  struct failure failure;
  if (open_fifo(intake, &failure)) {
    return;
  }
  log_event(LOG_CLIENT_ERROR, intake->config->name, "no writer can come until this has an end: %s", failure.text);
  intake->retry = loop_timer_new(intake->loop, on_retry, intake);
  intake->ended = intake->retry == NULL;
  if (intake->retry) {
    loop_timer_start(intake->retry, RETRY_MS, RETRY_MS);
  }
}
