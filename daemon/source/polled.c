/*
 * A source that is a socket, pipe, FIFO or terminal: polled, and read without blocking.
 *
 * The poll handle stays armed while bytes flow. A turn tries to read first and waits for the poll only when there was nothing.
 * A descriptor that is readable while no slot is free is taken off the poll at the second report. So a slow pipeline costs
 * neither a busy loop nor two system calls a frame.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/rights.h"
#include "daemon/source/private.h"

/* Limits of a turn. A fast producer could otherwise keep the turn reading until all free slots are full, and its first frames
 * would wait. */
enum { READS_A_TURN = 16, BYTES_A_TURN = 512 * 1024 };

static void on_polled_ready(uv_poll_t *poll, int status, int events) {
  struct source *source = poll->data;
  (void)events;
  if (status < 0 || source->readable) {
    uv_poll_stop(poll); /* the next read returns the error, or continues when a slot is free */
  }
  source->readable = true;
  lane_schedule(source->runner);
}

static void polled_arm(struct source *source) {
  source->readable = false;
  if (uv_is_active((uv_handle_t *)&source->poll)) {
    return;
  }
  int status = uv_poll_start(&source->poll, UV_READABLE, on_polled_ready);
  if (status != 0) {
    source_end(source, DETACH_ERROR, "cannot wait for it: %s", uv_strerror(status));
  }
}

static void polled_open(struct source *source, struct lane *lane) {
  struct stat status;
  source->is_socket = fstat(source->fd, &status) == 0 && S_ISSOCK(status.st_mode);
  source->readable = true;
  source->poll.data = source;
  int error = uv_poll_init(lane_loop(lane), &source->poll, source->fd);
  if (error != 0) {
    source->poll.data = NULL;
    source_end(source, DETACH_ERROR, "cannot wait for it: %s", uv_strerror(error));
  }
}

static void polled_fail(struct source *source, int error) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
    polled_arm(source);
  } else if (error == ECONNRESET) {
    source_end_of_input(source); /* it closed its end without reading what the daemon sent */
  } else {
    source_end(source, DETACH_ERROR, "reading failed: %s", strerror(error));
  }
}

/* Cuts the vectors to the bytes that a turn may read, which are fewer. Returns the number of vectors. */
static int cut_vector(struct iovec vector[RECEIVE_VECTORS]) {
  size_t left = BYTES_A_TURN;
  int last = 0;
  for (; vector[last].iov_len < left; last++) {
    left -= vector[last].iov_len;
  }
  vector[last].iov_len = left;
  return last + 1;
}

/* Reads once. Returns the number of bytes; 0: no more now. */
static size_t take_bytes(struct source *source, int64_t now) {
  struct iovec vector[RECEIVE_VECTORS];
  int count = receive_vector(source->receive, vector, now);
  if (count < 0) {
    source_end(source, DETACH_MALFORMED, "%s", source->receive->problem);
    return 0;
  }
  if (count == 0) {
    return 0;
  }
  size_t wanted = source->receive->wanted;
  if (wanted > BYTES_A_TURN) {
    wanted = BYTES_A_TURN;
    count = cut_vector(vector);
  }
  int64_t began = clock_now();
  ssize_t got = source->is_socket ? rights_read(source->fd, vector, count) : readv(source->fd, vector, count);
  if (got == 0) {
    source_end_of_input(source);
    return 0;
  }
  if (got < 0) {
    polled_fail(source, errno);
    return 0;
  }
  if (!receive_advance(source->receive, (size_t)got, began, clock_now())) {
    source_end(source, DETACH_MALFORMED, "%s", source->receive->problem);
  } else if ((size_t)got < wanted && source->is_socket && !receive_has_staged(source->receive)) {
    /* The socket is empty, so the poll reports what comes next. Not for a FIFO, whose end the poll may not report. Not with
     * staged bytes either, which the poll does not report. */
    polled_arm(source);
  }
  return (size_t)got;
}

static bool polled_turn(struct source *source, int64_t now) {
  size_t total = 0;
  for (int reads = 0; reads < READS_A_TURN && total < BYTES_A_TURN; reads++) {
    if (!source->readable) {
      return total > 0;
    }
    mark_set(&source->mark);
    size_t got = take_bytes(source, now);
    mark_clear(&source->mark);
    if (got == 0 || source->state != SOURCE_OPEN) {
      return total > 0;
    }
    total += got;
  }
  return true;
}

const struct source_operations source_polled_operations = {
    .open = polled_open, .turn = polled_turn, .close = source_close_poll};
