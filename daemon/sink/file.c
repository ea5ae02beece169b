/*
 * A file of results: written through uv_fs at positions of our own, one request at a time.
 *
 * The file always ends with a whole result as far as this sink is concerned: what was written of a result that failed is
 * cut off again, the result is counted as sink_error, and the next one is tried as if nothing had been.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "daemon/sink/refusal.h"
#include "daemon/sink/results.h"

static void write_more(struct sink *sink);
static void lose(struct sink *sink, int error);
static bool file_cut(struct sink *sink);

static void file_offered(struct sink *sink) { (void)sink; }

static void set_writing(struct sink *sink, bool writing) {
  sink->writing = writing;
  atomic_store_explicit(&sink->runner.asked, writing ? clock_now() : 0, memory_order_relaxed);
}

/* Bytes of the next result, with what stands before it. */
static size_t result_file_bytes(struct sink *sink) {
  struct result *result = sink_result(sink, sink->first);
  const unsigned char *prefix;
  return result_prefix(result, sink->readers->protocol, &prefix) + result_payload(result).count;
}

/* The buffers of the result under way, less what is written already. Returns their bytes. */
static size_t buffers_left(struct sink *sink, uv_buf_t buffers[3], unsigned *count) {
  struct reader *reader = sink->readers;
  struct result *result = sink_result(sink, sink->first);
  struct payload payload = result_payload(result);
  const unsigned char *prefix;
  size_t prefix_bytes = result_prefix(result, reader->protocol, &prefix), left = prefix_bytes + payload.count;
  *count = 0;
  if (sink->position == 0 && reader->header_bytes > 0) {
    buffers[(*count)++] = (uv_buf_t){.base = reader->header, .len = reader->header_bytes};
    left += reader->header_bytes;
  }
  if (prefix_bytes > 0) {
    buffers[(*count)++] = (uv_buf_t){.base = (char *)(uintptr_t)prefix, .len = prefix_bytes};
  }
  buffers[(*count)++] = (uv_buf_t){.base = (char *)(uintptr_t)payload.bytes, .len = payload.count};
  size_t skip = sink->written;
  while (skip > 0) {
    if (skip < buffers[0].len) {
      buffers[0].base += skip;
      buffers[0].len -= skip;
      break;
    }
    skip -= buffers[0].len;
    (*count)--;
    memmove(buffers, buffers + 1, *count * sizeof buffers[0]);
  }
  return left - sink->written;
}

static void file_tick(struct runner *runner, int64_t now) {
  struct sink *sink = (struct sink *)runner;
  refusal_tell(sink);
  const struct reader *reader = sink->readers;
  bool is_due = reader && reader->count > 0 && reader->until > 0 && now >= reader->until;
  if (is_due || (sink->room_until > 0 && !sink->writing)) {
    lane_schedule(runner);
  }
}

static void release_closed(struct sink *sink) {
  while (sink_count(sink) > 0 && !sink_result(sink, sink->first)->open) {
    sink_release_first(sink);
  }
}

/* -- segments ---------------------------------------------------------------------------------------------------------- */

/* Whether the next result, if there is one, belongs into the next segment. */
static bool is_over(struct sink *sink, int64_t now) {
  const struct reader *reader = sink->readers;
  bool has_next = sink_count(sink) > 0;
  if (reader->index < 0 || now < reader->hold || (!has_next && reader->count == 0)) {
    return false;
  }
  size_t next = has_next && sink->most > 0 ? result_file_bytes(sink) : 0;
  bool is_full = next > 0 && reader->count > 0 && sink->position + (int64_t)next > sink->most;
  return is_full || (reader->until > 0 && now >= reader->until);
}

/* Times are of CLOCK_REALTIME, so that recordings of several machines can be compared. A deadline that is further away than any
 * time that fits there is none. */
static void set_entry(struct sink *sink, size_t header_bytes) {
  struct reader *reader = sink->readers;
  const struct result *result = sink_result(sink, sink->first);
  const struct frame *frame = &result->slot->frame;
  const int64_t shift = reader->shift;
  const bool has_deadline = frame->deadline != 0 && image_is_time(frame->deadline);
  reader->entry = (struct segment_entry){.offset = (uint64_t)sink->position + header_bytes,
                                         .bytes = result_file_bytes(sink),
                                         .sequence = frame->sequence,
                                         .tag = frame->tag,
                                         .stamp = frame->began + shift,
                                         .came = frame->complete + shift,
                                         .deadline = has_deadline ? frame->deadline + shift : 0,
                                         .flags = frame->restart ? SEGMENT_RESTART : 0,
                                         .epoch = frame->epoch};
}

static void on_indexed(uv_fs_t *request) {
  struct sink *sink = request->data;
  ssize_t written = request->result;
  uv_fs_req_cleanup(request);
  sink->readers->indexed = written == (ssize_t)sizeof sink->readers->entry;
  if (!sink->readers->indexed) {
    lose(sink, written < 0 ? (int)written : UV_ENOSPC);
  } else if (!lane_is_parking(sink->lane)) {
    write_more(sink);
  } else {
    set_writing(sink, false);
  }
}

/* The entry before the result, so that no result is ever without one. */
static void write_entry(struct sink *sink) {
  struct reader *reader = sink->readers;
  set_entry(sink, sink->position == 0 ? reader->header_bytes : 0);
  uv_buf_t buffer = {.base = (char *)&reader->entry, .len = sizeof reader->entry};
  sink->request.data = sink;
  set_writing(sink, true);
  int status = uv_fs_write(lane_loop(sink->lane), &sink->request, reader->index, &buffer, 1,
                           (int64_t)(sizeof(struct segment_head) + reader->count * sizeof reader->entry), on_indexed);
  if (status != 0) {
    lose(sink, status);
  }
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

static void let_go(struct sink *sink) {
  struct reader *reader = sink->readers;
  bool full = is_over(sink, clock_now());
  sink->readers = NULL;
  sink->letting_go = false;
  sink->placed = false;
  reader->departure.event = (struct sink_event){.kind = SINK_DETACHED, .fd = reader->fd, .reader = reader, .full = full};
  reader_read(reader, &reader->departure.event.emitted, &reader->departure.event.missed);
  reader->departure.event.missed = sink->missed;
  sink->missed = 0;
  sink_post(sink, &reader->departure);
}

/* True: the file is given back, or will be once it ends with a whole result, and nothing may be written to it. */
static bool file_leaves(struct sink *sink) {
  if (sink->written > 0) { /* in the middle of a result, since the lane stood still */
    return false;
  }
  sink->letting_go |= is_over(sink, clock_now());
  if (!sink->letting_go) {
    return false;
  }
  if (!file_cut(sink)) {
    let_go(sink);
  }
  return true;
}

static void file_go_on(struct sink *sink) {
  release_closed(sink);
  if (sink->stopping) {
    sink->operations->stop(sink);
  } else if (sink->readers && !lane_is_parking(sink->lane) && !file_leaves(sink) && sink_count(sink) > 0) {
    write_more(sink);
  }
}

static void file_finish(struct sink *sink, enum fate fate) {
  sink->written = 0;
  result_settle(sink_result(sink, sink->first), fate, clock_now());
  sink_release_first(sink);
}

static void finish_whole(struct sink *sink) {
  int64_t end = sink->position + (int64_t)sink->written;
  sink_result(sink, sink->first)->end = end; /* from here on it is in the file, wherever this process ends */
  atomic_signal_fence(memory_order_seq_cst);
  sink->position = end;
  sink->torn = false; /* the part of a result that stood here is written over */
  sink->readers->count++;
  sink->readers->indexed = false;
  file_finish(sink, FATE_EMITTED);
  atomic_fetch_add_explicit(&sink->readers->emitted, 1, memory_order_relaxed);
  refusal_ends(sink);
}

static void finish_lost(struct sink *sink, int error) {
  sink->lost++;
  sink->missed++;
  sink->torn |= sink->written > 0;
  sink->readers->indexed = false; /* the next result's is written over it */
  file_finish(sink, FATE_SINK_ERROR);
  refusal_begins(sink, error);
}

/* The file is about to leave, whatever is at its end. */
static bool gives_back(const struct sink *sink) { return sink->stopping || sink->letting_go; }

static void on_cut(uv_fs_t *request) {
  struct sink *sink = request->data;
  int status = (int)request->result;
  uv_fs_req_cleanup(request);
  set_writing(sink, false);
  sink->torn = status != 0 && !gives_back(sink);
  if (status != 0) {
    refusal_leaves_torn(sink, status);
  }
  file_go_on(sink);
}

/* Cuts off what was written of a result that failed, if there is any. True: that is under way, and ends in file_go_on(). */
static bool file_cut(struct sink *sink) {
  if (!sink->torn) {
    return false;
  }
  sink->request.data = sink;
  int status = uv_fs_ftruncate(lane_loop(sink->lane), &sink->request, sink->readers->fd, sink->position, on_cut);
  set_writing(sink, status == 0);
  if (status != 0) {
    sink->torn = !gives_back(sink);
    refusal_leaves_torn(sink, status);
  }
  return sink->writing;
}

static void lose(struct sink *sink, int error) {
  set_writing(sink, false);
  if (refusal_waits_for_room(sink, error)) {
    return;
  }
  if (!refusal_ends_segment(sink, error)) {
    finish_lost(sink, error);
  }
  if (!file_cut(sink)) {
    file_go_on(sink);
  }
}

static void on_written(uv_fs_t *request) {
  struct sink *sink = request->data;
  ssize_t written = request->result;
  uv_fs_req_cleanup(request);
  uv_buf_t buffers[3];
  unsigned count = 0;
  size_t left = buffers_left(sink, buffers, &count);
  if (written <= 0) {
    lose(sink, written < 0 ? (int)written : UV_EIO);
    return;
  }
  sink->written += (size_t)written;
  if ((size_t)written < left && !lane_is_parking(sink->lane)) {
    write_more(sink); /* the next request fails with the reason, or goes on */
    return;
  }
  set_writing(sink, false);
  if ((size_t)written < left) {
    return; /* the next process goes on from here */
  }
  finish_whole(sink);
  file_go_on(sink);
}

static void write_more(struct sink *sink) {
  uv_buf_t buffers[3];
  unsigned count = 0;
  if (sink->written == 0) {
    reader_set_header(sink->readers, sink_result(sink, sink->first));
  }
  if (sink->readers->index >= 0 && !sink->readers->indexed) {
    write_entry(sink);
    return;
  }
  buffers_left(sink, buffers, &count);
  sink->request.data = sink;
  set_writing(sink, true);
  int status = uv_fs_write(lane_loop(sink->lane), &sink->request, sink->readers->fd, buffers, count,
                           sink->position + (int64_t)sink->written, on_written);
  if (status != 0) {
    lose(sink, status);
  }
}

/* A request is carried out at once, by a thread that may wait. */
static bool write_first(struct sink *sink) {
  uv_buf_t buffers[3];
  unsigned count = 0;
  struct reader *reader = sink->readers;
  sink->written = 0;
  reader_set_header(reader, sink_result(sink, sink->first));
  set_entry(sink, sink->position == 0 ? reader->header_bytes : 0);
  off_t at = (off_t)(sizeof(struct segment_head) + reader->count * sizeof reader->entry);
  size_t bytes = buffers_left(sink, buffers, &count);
  if (pwrite(reader->index, &reader->entry, sizeof reader->entry, at) != (ssize_t)sizeof reader->entry ||
      pwritev(reader->fd, (const struct iovec *)(const void *)buffers, (int)count, sink->position) != (ssize_t)bytes) {
    return false;
  }
  sink->written = bytes;
  finish_whole(sink);
  return true;
}

bool sink_flush_segment(struct sink *sink) {
  release_closed(sink);
  bool may = sink->readers && sink->readers->index >= 0 && !sink->writing;
  while (may && sink_count(sink) > 0) {
    may = write_first(sink);
    release_closed(sink);
  }
  return may;
}

static bool file_turn(struct sink *sink, int64_t now) {
  (void)now;
  if (!sink->writing) {
    release_closed(sink); /* only of a process before this one */
  }
  if (!sink->writing && !sink->stopping && sink->readers) {
    file_go_on(sink);
  }
  return false;
}

static void file_attach(struct sink *sink, struct reader *reader) {
  assert(!sink->readers);
  if (!reader->continues) {
    off_t position = lseek(reader->fd, 0, SEEK_END); /* not before: another sink may have written to the file until now */
    sink->position = position > 0 ? position : 0;
    atomic_signal_fence(memory_order_seq_cst);
    sink->placed = true;
  }
  sink->readers = reader;
  sink->runner.tick = file_tick;
  lane_schedule(&sink->runner);
}

static void file_stop(struct sink *sink) {
  if (sink->writing || (sink->readers && file_cut(sink))) {
    return; /* file_go_on() comes back here */
  }
  if (sink->readers) {
    let_go(sink);
  }
  sink_stopped(sink);
}

static void run_let_go(struct message *message) {
  struct sink *sink = (struct sink *)((char *)message - offsetof(struct sink, detach_message));
  if (sink->readers) {
    sink->letting_go = true;
    lane_schedule(&sink->runner);
  }
}

void sink_end_segment(struct sink *sink) {
  if (sink->readers) {
    sink->readers->until = clock_now();
    lane_schedule(&sink->runner);
  }
}

void sink_let_go(struct sink *sink) {
  sink->detach_message.run = run_let_go;
  lane_post(sink->lane, &sink->detach_message);
}

/* The result under way is waited for, since its slot is being read; those behind it are released after it. */
static void file_discard(struct sink *sink, enum fate fate, int64_t now) {
  if (!sink->writing && sink->written > 0) { /* it waited for room */
    sink->torn = true;
    sink->written = 0;
  }
  for (uint64_t at = sink->first + (sink->writing ? 1 : 0); at < sink->tail; at++) {
    if (sink_result(sink, at)->open) {
      result_settle(sink_result(sink, at), fate, now);
    }
  }
  if (!sink->writing) {
    release_closed(sink);
  }
}

const struct sink_operations sink_file_operations = {
    .is_file = true,
    .offered = file_offered,
    .turn = file_turn,
    .stop = file_stop,
    .attach = file_attach,
    .discard = file_discard,
};
