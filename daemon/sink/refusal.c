/*
 * Handles a refused write of a result: its segment ends, or the result waits for room on the disk, or it is lost and the
 * control loop gets a report. file.c calls this.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/sink/results.h"
#include "daemon/sink/retention.h"

#define ROOM_PATIENCE (3 * NS_PER_S) /* time for a pool thread to remove old segments */

/* -- reports to the control loop ---------------------------------------------------------------------------------------- */

void refusal_report(struct sink *sink) {
  struct file *file = &sink->file;
  if (file->failed == file->reported || !sink_may_post(&file->trouble)) {
    return;
  }
  struct sink_event *event = &file->trouble.event;
  file->reported = file->failed;
  *event = (struct sink_event){.kind = file->failed ? SINK_FAILED : SINK_RECOVERED, .missed = file->lost, .error = file->error};
  if (file->failed) {
    snprintf(event->text, sizeof event->text, "%s", file->why);
  }
  file->lost = file->failed ? file->lost : 0;
  sink_post(sink, &file->trouble);
}

/* For example "No space left on device (ENOSPC)". */
static void describe_error(struct sink *sink, const char *before, int error) {
  const char *name = strerrorname_np(error);
  sink->file.error = error;
  snprintf(sink->file.why, sizeof sink->file.why, "%s%s (%s)", before, strerror(error), name ? name : "unknown");
}

void refusal_begins(struct sink *sink, int error) {
  if (!sink->file.failed) {
    sink->file.failed = true;
    describe_error(sink, "", -error);
  }
  refusal_report(sink);
}

void refusal_ends(struct sink *sink) {
  sink->file.failed = false;
  sink->file.room_until = 0;
  refusal_report(sink);
}

void refusal_leaves_torn(struct sink *sink, int error) {
  if (error == UV_EINVAL) {
    sink->file.torn = false;
    return;
  }
  sink->file.failed = true;
  sink->file.reported = false;
  describe_error(sink, "the partly written result cannot be cut off: ", -error);
  refusal_report(sink);
}

/* -- before a result is lost -------------------------------------------------------------------------------------------- */

bool refusal_ends_segment(struct sink *sink, int error) {
  struct file *file = &sink->file;
  struct segment *segment = &file->reader->segment;
  if (error != UV_EFBIG || segment->index < 0 || segment->count == 0 || clock_now() < segment->hold || sink->stopping) {
    return false;
  }
  segment->until = clock_now();
  segment->indexed = false;
  file->torn |= file->written > 0;
  file->written = 0;
  return true;
}

bool refusal_waits_for_room(struct sink *sink, int error) {
  struct file *file = &sink->file;
  const int64_t now = clock_now();
  if (!file->makes_room || !retention_is_full(-error) || file->reader->segment.index < 0 || sink->stopping) {
    return false;
  }
  file->room_until = file->room_until == 0 ? now + ROOM_PATIENCE : file->room_until;
  if (now >= file->room_until) {
    return false;
  }
  if (sink_may_post(&file->room)) {
    file->room.event = (struct sink_event){.kind = SINK_FULL, .error = -error};
    sink_post(sink, &file->room);
  }
  return true;
}
