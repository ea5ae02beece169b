/*
 * A producer with shared memory: its frames come by a channel, and its connection carries doorbells and its end.
 *
 * The connection is read only when it is ready, which is when the client has rung or gone. What it submitted before it
 * went still counts, so that a producer that goes while its session is held keeps its place until that is taken.
 */
#include <errno.h>
#include <string.h>

#include "daemon/base/doorbell.h"
#include "daemon/source/channel.h"
#include "daemon/source/private.h"

/* libuv stops at an error, but bytes may wait before the end of which it tells. */
static void on_ready(uv_poll_t *poll, int status, int events) {
  struct source *source = poll->data;
  (void)events;
  if (source->state != SOURCE_OPEN) {
    uv_poll_stop(poll); /* its end has been heard, and would be told on and on */
  } else if (status < 0) {
    uv_poll_start(poll, UV_READABLE, on_ready);
  }
  source->readable = true;
  lane_schedule(source->runner);
}

static void shared_open(struct source *source, struct lane *lane) {
  source->poll.data = source;
  source->readable = false;
  int error = uv_poll_init(lane_loop(lane), &source->poll, source->fd);
  if (error != 0) {
    source->poll.data = NULL;
  } else {
    error = uv_poll_start(&source->poll, UV_READABLE, on_ready);
  }
  if (error != 0) {
    source_end(source, DETACH_ERROR, "cannot wait for it: %s", uv_strerror(error));
  }
}

/* False: the client has gone, or said what no client may say. */
static bool hear_doorbells(struct source *source) {
  int error = uv_is_active((uv_handle_t *)&source->poll) ? 0 : uv_poll_start(&source->poll, UV_READABLE, on_ready);
  if (error != 0) {
    source_end(source, DETACH_ERROR, "cannot wait for it: %s", uv_strerror(error));
    return false;
  }
  enum doorbell_heard heard = doorbell_hear(source->fd);
  source->readable = heard == DOORBELL_MORE;
  if (heard == DOORBELL_NONSENSE) {
    source_end(source, DETACH_MALFORMED, "%s", DOORBELL_COMPLAINT);
  } else if (heard == DOORBELL_GONE) {
    source_end(source, DETACH_END, "%s", "");
  } else if (heard == DOORBELL_ERROR) {
    source_end(source, DETACH_ERROR, "reading failed: %s", strerror(errno));
  }
  return heard == DOORBELL_NOTHING || heard == DOORBELL_MORE;
}

static bool take_turn(struct source *source, int64_t now) {
  bool rang = source->readable && !channel_is_held_up(source->channel);
  if (source->readable && !rang) {
    uv_poll_stop(&source->poll); /* until it is held no longer: that will ask for a turn */
  }
  bool there = !rang || hear_doorbells(source);
  if (!there && source->reason == DETACH_MALFORMED) {
    return true;
  }
  /* A client that has gone submitted what it submitted. */
  enum channel_progress progress = CHANNEL_QUIET;
  if (channel_is_asked(source->channel)) {
    mark_set(&source->mark);
    progress = channel_take(source->channel, now);
    mark_clear(&source->mark);
  }
  if (there && progress == CHANNEL_BROKEN) {
    source_end(source, DETACH_MALFORMED, "%s", source->receive->problem);
  }
  return rang || progress != CHANNEL_QUIET;
}

const struct source_operations source_shared_operations = {.open = shared_open, .turn = take_turn, .close = source_close_poll};
