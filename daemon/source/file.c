/*
 * A source that is a file: read through uv_fs at offsets that this module tracks, one request at a time, straight into slots.
 * Paced and repeated if the configuration says so.
 */
#include <math.h>
#include <string.h>

#include "daemon/source/private.h"

/* A frame that is late by more than this restarts the schedule. Otherwise a burst of frames would follow. */
#define PACE_SLACK     (20 * NS_PER_MS)
#define LONGEST_PERIOD 1e18 /* 30 years: the clock can be added without overflow */

_Static_assert(RECEIVE_VECTORS <= sizeof((uv_fs_t *)0)->bufsml / sizeof(uv_buf_t), "a read of a file would allocate");

static void on_pace(uv_timer_t *timer) {
  struct source *source = timer->data;
  lane_schedule(source->runner);
}

/* True if frames begin at fixed times. The frames of a recording are read one at a time at any pace. */
static bool is_paced(const struct source *source) { return source->rate > 0 || source->pace_by > 0; }

static void file_open(struct source *source, struct lane *lane) {
  source->reading = false;
  source->receive->one_by_one = is_paced(source);
  uv_timer_init(lane_loop(lane), &source->pace);
  source->pace.data = source;
  source->request.data = source;
}

static void at_end(struct source *source) {
  bool clean = !source->receive->begun && framing_at_boundary(&source->receive->framing);
  bool had_frames = source->receive->sequence > source->rewound_at; /* otherwise it would loop for ever without a frame */
  if (source->loop && had_frames && clean) {
    source->offset = 0;
    source->rewound_at = source->receive->rewound_at = source->receive->sequence;
    receive_rewind(source->receive);
    return;
  }
  source_end_of_input(source);
}

/* 0: the read is done */
static void set_reading(struct source *source, int64_t now) {
  source->reading = now != 0;
  atomic_store_explicit(&source->runner->asked, now, memory_order_relaxed);
}

static void file_close(struct source *source) {
  if (source->reading) {
    return; /* on_file_read() calls this function again */
  }
  source->closing = 1;
  uv_close((uv_handle_t *)&source->pace, source_on_handle_closed);
}

/* If the process is killed before file_end_change(), the next one reads the file again from here. */
static void file_begin_change(struct source *source) {
  source->before = *source->receive;
  source->offset_before = source->offset;
  mark_set(&source->mark);
}

static void file_end_change(struct source *source) { mark_clear(&source->mark); }

static void take_read(struct source *source, ssize_t got) {
  file_begin_change(source);
  if (got < 0) {
    source_end(source, DETACH_ERROR, "reading failed: %s", uv_strerror((int)got));
  } else if (got == 0) {
    at_end(source);
  } else {
    source->offset += got;
    if (!receive_advance(source->receive, (size_t)got, source->read_began, clock_now())) {
      source_end(source, DETACH_MALFORMED, "%s", source->receive->problem);
    }
  }
  file_end_change(source);
}

static void on_file_read(uv_fs_t *request) {
  struct source *source = request->data;
  ssize_t got = request->result;
  uv_fs_req_cleanup(request);
  set_reading(source, 0);
  if (source->state == SOURCE_CLOSING) {
    file_close(source);
    return;
  }
  if (source->state == SOURCE_OPEN) {
    take_read(source, got);
  }
  lane_schedule(source->runner);
}

/* True if the next frame may begin. Otherwise the timer requests a turn for that time. */
static bool is_due(struct source *source, int64_t now) {
  if (!is_paced(source) || source->receive->begun || !framing_at_boundary(&source->receive->framing)) {
    return true;
  }
  if (now < source->due) {
    uv_timer_start(&source->pace, on_pace, (uint64_t)((source->due - now + NS_PER_MS - 1) / NS_PER_MS), 0);
    return false;
  }
  return true;
}

static void schedule_next(struct source *source, int64_t now) {
  double gap = source->pace_by > 0 ? (double)receive_gap(source->receive, source->receive->sequence + 1) / source->pace_by
                                   : 1e9 / source->rate;
  int64_t period = (int64_t)fmin(gap, LONGEST_PERIOD);
  int64_t slack = period > PACE_SLACK ? period : PACE_SLACK;
  bool on_time = source->due != 0 && now - source->due < slack;
  source->due = (on_time ? source->due : now) + period;
}

static bool source_file_turn(struct source *source, int64_t now) {
  if (source->reading || !is_due(source, now)) {
    return false;
  }
  bool paced_begin = is_paced(source) && !source->receive->begun && framing_at_boundary(&source->receive->framing);
  struct iovec vector[RECEIVE_VECTORS];
  file_begin_change(source);
  int count = receive_vector(source->receive, vector, now);
  if (count < 0) {
    source_end(source, DETACH_MALFORMED, "%s", source->receive->problem);
  }
  file_end_change(source);
  if (count <= 0) {
    return false;
  }
  uv_buf_t buffers[RECEIVE_VECTORS];
  for (int i = 0; i < count; i++) {
    buffers[i] = (uv_buf_t){.base = vector[i].iov_base, .len = vector[i].iov_len};
  }
  if (paced_begin) {
    schedule_next(source, now);
  }
  int status =
      uv_fs_read(source->pace.loop, &source->request, source->fd, buffers, (unsigned)count, source->offset, on_file_read);
  if (status != 0) {
    source_end(source, DETACH_ERROR, "reading failed: %s", uv_strerror(status));
    return false;
  }
  set_reading(source, now);
  source->read_began = now;
  return false;
}

const struct source_operations source_file_operations = {.open = file_open, .turn = source_file_turn, .close = file_close};
