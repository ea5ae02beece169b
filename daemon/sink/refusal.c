#include "daemon/sink/refusal.h"

#include <stdio.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/sink/retention.h"

#define ROOM_PATIENCE (3 * NS_PER_S) /* with a worker that removes old segments */

/* -- what the control loop hears ---------------------------------------------------------------------------------------- */

void refusal_tell(struct sink *sink) {
  if (sink->failed == sink->told || atomic_exchange(&sink->trouble_posted, true)) {
    return;
  }
  struct sink_event *event = &sink->trouble_notice.event;
  sink->told = sink->failed;
  *event = (struct sink_event){.kind = sink->failed ? SINK_FAILED : SINK_RECOVERED, .missed = sink->lost, .error = sink->error};
  if (sink->failed) {
    snprintf(event->text, sizeof event->text, "%s", sink->trouble);
  }
  sink->lost = sink->failed ? sink->lost : 0;
  sink_post(sink, &sink->trouble_notice);
}

/* "No space left on device (ENOSPC)" */
static void describe_error(struct sink *sink, const char *before, int error) {
  const char *name = strerrorname_np(error);
  sink->error = error;
  snprintf(sink->trouble, sizeof sink->trouble, "%s%s (%s)", before, strerror(error), name ? name : "of no name");
}

void refusal_begins(struct sink *sink, int error) {
  if (!sink->failed) {
    sink->failed = true;
    describe_error(sink, "", -error);
  }
  refusal_tell(sink);
}

void refusal_ends(struct sink *sink) {
  sink->failed = false;
  sink->room_until = 0;
  refusal_tell(sink);
}

void refusal_leaves_torn(struct sink *sink, int error) {
  if (error == UV_EINVAL) {
    sink->torn = false;
    return;
  }
  sink->failed = true;
  sink->told = false;
  describe_error(sink, "the part of a result that is there cannot be cut off: ", -error);
  refusal_tell(sink);
}

/* -- before a result is lost -------------------------------------------------------------------------------------------- */

bool refusal_ends_segment(struct sink *sink, int error) {
  struct reader *reader = sink->readers;
  if (error != UV_EFBIG || reader->index < 0 || reader->count == 0 || clock_now() < reader->hold || sink->stopping) {
    return false;
  }
  reader->until = clock_now();
  reader->indexed = false;
  sink->torn |= sink->written > 0;
  sink->written = 0;
  return true;
}

bool refusal_waits_for_room(struct sink *sink, int error) {
  const int64_t now = clock_now();
  if (!sink->makes_room || !retention_is_full(-error) || sink->readers->index < 0 || sink->stopping) {
    return false;
  }
  sink->room_until = sink->room_until == 0 ? now + ROOM_PATIENCE : sink->room_until;
  if (now >= sink->room_until) {
    return false;
  }
  if (!atomic_exchange(&sink->room_posted, true)) {
    sink->room_notice.event = (struct sink_event){.kind = SINK_FULL, .error = -error};
    sink_post(sink, &sink->room_notice);
  }
  return true;
}
