/*
 * A file of results, written through uv_fs at offsets that this module tracks, one request at a time.
 *
 * The file always ends with a complete result. If a write fails, the part that was written is cut off and the result is
 * counted as sink_error. The next one is attempted as usual.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "daemon/sink/results.h"

static void write_more(struct sink *sink);
static void lose(struct sink *sink, int error);
static bool file_cut(struct sink *sink);

static void file_offered(struct sink *sink) { (void)sink; }

static bool is_writing(const struct sink *sink) { return sink_asked(sink) != 0; }

static void set_writing(struct sink *sink, bool writing) {
  atomic_store_explicit(&sink->runner.asked, writing ? clock_now() : 0, memory_order_relaxed);
}

/* Bytes of the next result with its prefix. */
static size_t result_file_bytes(struct sink *sink) {
  struct result *result = sink_result(sink, sink->first);
  const unsigned char *prefix;
  return result_prefix(result, sink->file.reader->protocol, &prefix) + result_payload(result).count;
}

/* The buffers of the current result without the bytes already written. Returns their total size. */
static size_t buffers_left(struct sink *sink, uv_buf_t buffers[3], unsigned *count) {
  struct file *file = &sink->file;
  struct reader *reader = file->reader;
  struct result *result = sink_result(sink, sink->first);
  struct payload payload = result_payload(result);
  const unsigned char *prefix;
  size_t prefix_bytes = result_prefix(result, reader->protocol, &prefix), left = prefix_bytes + payload.count;
  *count = 0;
  if (file->position == 0 && reader->header_bytes > 0) {
    buffers[(*count)++] = (uv_buf_t){.base = reader->header, .len = reader->header_bytes};
    left += reader->header_bytes;
  }
  if (prefix_bytes > 0) {
    buffers[(*count)++] = (uv_buf_t){.base = (char *)(uintptr_t)prefix, .len = prefix_bytes};
  }
  buffers[(*count)++] = (uv_buf_t){.base = (char *)(uintptr_t)payload.bytes, .len = payload.count};
  size_t skip = file->written;
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
  return left - file->written;
}

static void file_tick(struct runner *runner, int64_t now) {
  struct sink *sink = (struct sink *)runner;
  refusal_report(sink);
  const struct segment *segment = sink->file.reader ? &sink->file.reader->segment : NULL;
  bool is_due = segment && segment->count > 0 && segment->until > 0 && now >= segment->until;
  if (is_due || (sink->file.room_until > 0 && !is_writing(sink))) {
    lane_schedule(runner);
  }
}

/* -- segments ---------------------------------------------------------------------------------------------------------- */

/* True if the next result, if any, belongs into the next segment. */
static bool is_over(struct sink *sink, int64_t now) {
  const struct file *file = &sink->file;
  const struct segment *segment = &file->reader->segment;
  bool has_next = sink_count(sink) > 0;
  if (segment->index < 0 || now < segment->hold || (!has_next && segment->count == 0)) {
    return false;
  }
  size_t next = has_next && file->most > 0 ? result_file_bytes(sink) : 0;
  bool is_full = next > 0 && segment->count > 0 && file->position + (int64_t)next > file->most;
  return is_full || (segment->until > 0 && now >= segment->until);
}

/* Index times are CLOCK_REALTIME, so that recordings of several machines can be compared. A deadline beyond the range of such
 * times counts as none. */
static void set_entry(struct sink *sink, size_t header_bytes) {
  struct segment *segment = &sink->file.reader->segment;
  const struct result *result = sink_result(sink, sink->first);
  const struct frame *frame = &result->slot->frame;
  const int64_t shift = segment->shift;
  const bool has_deadline = frame->deadline != 0 && image_is_time(frame->deadline);
  segment->entry = (struct segment_entry){.offset = (uint64_t)sink->file.position + header_bytes,
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
  struct segment *segment = &sink->file.reader->segment;
  segment->indexed = written == (ssize_t)sizeof segment->entry;
  if (!segment->indexed) {
    lose(sink, written < 0 ? (int)written : UV_ENOSPC);
  } else if (!lane_is_parking(sink->lane)) {
    write_more(sink);
  } else {
    set_writing(sink, false);
  }
}

/* Writes the index entry before the result, so that no result is ever without one. */
static void write_entry(struct sink *sink) {
  struct file *file = &sink->file;
  struct segment *segment = &file->reader->segment;
  set_entry(sink, file->position == 0 ? file->reader->header_bytes : 0);
  uv_buf_t buffer = {.base = (char *)&segment->entry, .len = sizeof segment->entry};
  file->request.data = sink;
  set_writing(sink, true);
  int status = uv_fs_write(lane_loop(sink->lane), &file->request, segment->index, &buffer, 1,
                           (int64_t)(sizeof(struct segment_head) + segment->count * sizeof segment->entry), on_indexed);
  if (status != 0) {
    lose(sink, status);
  }
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

static void detach_file(struct sink *sink) {
  struct file *file = &sink->file;
  struct reader *reader = file->reader;
  bool full = is_over(sink, clock_now());
  file->reader = NULL;
  file->detaching = false;
  file->position = -1;
  reader->departure.event = (struct sink_event){.kind = SINK_DETACHED, .fd = reader->fd, .reader = reader, .full = full};
  reader_read(reader, &reader->departure.event.emitted, &reader->departure.event.missed);
  reader->departure.event.missed = file->missed;
  file->missed = 0;
  sink_post(sink, &reader->departure);
}

/* Returns true if the file is detached, now or after a cut. Nothing may be written to it then. */
static bool file_leaves(struct sink *sink) {
  if (sink->file.written > 0) { /* in the middle of a result, because the lane was parked */
    return false;
  }
  sink->file.detaching |= is_over(sink, clock_now());
  if (!sink->file.detaching) {
    return false;
  }
  if (!file_cut(sink)) {
    detach_file(sink);
  }
  return true;
}

static void file_continue(struct sink *sink) {
  sink_release(sink, clock_now());
  if (sink->stopping) {
    sink->operations->stop(sink);
  } else if (sink->file.reader && !lane_is_parking(sink->lane) && !file_leaves(sink) && sink_count(sink) > 0) {
    write_more(sink);
  }
}

static void file_finish(struct sink *sink, enum fate fate) {
  sink->file.written = 0;
  result_release(sink, sink_result(sink, sink->first), fate, clock_now());
}

static void finish_whole(struct sink *sink) {
  struct file *file = &sink->file;
  int64_t end = file->position + (int64_t)file->written;
  sink_result(sink, sink->first)->end = end; /* from here on a takeover knows that the result is in the file */
  atomic_signal_fence(memory_order_seq_cst);
  file->position = end;
  file->torn = false; /* the partial result that was here is overwritten */
  file->reader->segment.count++;
  file->reader->segment.indexed = false;
  file_finish(sink, FATE_EMITTED);
  READER_COUNT(file->reader->emitted, 1U);
  refusal_ends(sink);
}

static void finish_lost(struct sink *sink, int error) {
  struct file *file = &sink->file;
  file->lost++;
  file->missed++;
  file->torn |= file->written > 0;
  file->reader->segment.indexed = false; /* the entry of the next result overwrites it */
  file_finish(sink, FATE_SINK_ERROR);
  refusal_begins(sink, error);
}

/* The file leaves soon, even if a partial result stays at its end. */
static bool is_leaving(const struct sink *sink) { return sink->stopping || sink->file.detaching; }

static void on_cut(uv_fs_t *request) {
  struct sink *sink = request->data;
  int status = (int)request->result;
  uv_fs_req_cleanup(request);
  set_writing(sink, false);
  sink->file.torn = status != 0 && !is_leaving(sink);
  if (status != 0) {
    refusal_leaves_torn(sink, status);
  }
  file_continue(sink);
}

/* Cuts off a partly written result, if any. Returns true if the request is under way; it continues in file_continue(). */
static bool file_cut(struct sink *sink) {
  struct file *file = &sink->file;
  if (!file->torn) {
    return false;
  }
  file->request.data = sink;
  int status = uv_fs_ftruncate(lane_loop(sink->lane), &file->request, file->reader->fd, file->position, on_cut);
  set_writing(sink, status == 0);
  if (status != 0) {
    file->torn = !is_leaving(sink);
    refusal_leaves_torn(sink, status);
  }
  return is_writing(sink);
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
    file_continue(sink);
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
  sink->file.written += (size_t)written;
  if ((size_t)written < left && !lane_is_parking(sink->lane)) {
    write_more(sink); /* the next request continues, or fails with the reason */
    return;
  }
  set_writing(sink, false);
  if ((size_t)written < left) {
    return; /* the next process continues from here */
  }
  finish_whole(sink);
  file_continue(sink);
}

static void write_more(struct sink *sink) {
  struct file *file = &sink->file;
  uv_buf_t buffers[3];
  unsigned count = 0;
  if (file->written == 0) {
    reader_set_header(file->reader, sink_result(sink, sink->first));
  }
  if (file->reader->segment.index >= 0 && !file->reader->segment.indexed) {
    write_entry(sink);
    return;
  }
  buffers_left(sink, buffers, &count);
  file->request.data = sink;
  set_writing(sink, true);
  int status = uv_fs_write(lane_loop(sink->lane), &file->request, file->reader->fd, buffers, count,
                           file->position + (int64_t)file->written, on_written);
  if (status != 0) {
    lose(sink, status);
  }
}

/* Writes at once, with blocking calls. */
static bool write_first(struct sink *sink) {
  struct file *file = &sink->file;
  uv_buf_t buffers[3];
  unsigned count = 0;
  struct reader *reader = file->reader;
  struct segment *segment = &reader->segment;
  file->written = 0;
  reader_set_header(reader, sink_result(sink, sink->first));
  set_entry(sink, file->position == 0 ? reader->header_bytes : 0);
  off_t at = (off_t)(sizeof(struct segment_head) + segment->count * sizeof segment->entry);
  size_t bytes = buffers_left(sink, buffers, &count);
  if (pwrite(segment->index, &segment->entry, sizeof segment->entry, at) != (ssize_t)sizeof segment->entry ||
      pwritev(reader->fd, (const struct iovec *)(const void *)buffers, (int)count, file->position) != (ssize_t)bytes) {
    return false;
  }
  file->written = bytes;
  finish_whole(sink);
  return true;
}

bool sink_flush_segment(struct sink *sink) {
  sink_release(sink, clock_now());
  bool may = sink->file.reader && sink->file.reader->segment.index >= 0 && !is_writing(sink);
  while (may && sink_count(sink) > 0) {
    may = write_first(sink);
    sink_release(sink, clock_now());
  }
  return may;
}

static bool file_turn(struct sink *sink, int64_t now) {
  (void)now;
  if (!is_writing(sink)) {
    sink_release(sink, clock_now()); /* only results of the previous process */
  }
  if (!is_writing(sink) && !sink->stopping && sink->file.reader) {
    file_continue(sink);
  }
  return false;
}

static void file_attach(struct sink *sink, struct reader *reader) {
  struct file *file = &sink->file;
  assert(!file->reader);
  if (!reader->continues) {
    off_t end = lseek(reader->fd, 0, SEEK_END); /* not earlier, because another sink may have written to the file until now */
    sink->file.position = end > 0 ? end : 0;
  }
  file->reader = reader;
  sink->runner.tick = file_tick;
  lane_schedule(&sink->runner);
}

static void file_stop(struct sink *sink) {
  if (is_writing(sink) || (sink->file.reader && file_cut(sink))) {
    return; /* file_continue() calls this function again */
  }
  if (sink->file.reader) {
    detach_file(sink);
  }
  sink_stopped(sink);
}

static void run_detach_file(struct message *message) {
  struct sink *sink = (struct sink *)((char *)message - offsetof(struct sink, detach_message));
  if (sink->file.reader) {
    sink->file.detaching = true;
    lane_schedule(&sink->runner);
  }
}

void sink_end_segment(struct sink *sink) {
  if (sink->file.reader) {
    sink->file.reader->segment.until = clock_now();
    lane_schedule(&sink->runner);
  }
}

void sink_detach_file(struct sink *sink) {
  sink->detach_message.run = run_detach_file;
  lane_post(sink->lane, &sink->detach_message);
}

/* Leaves the result that is being written, because its slot is being read. */
static uint64_t file_discard(struct sink *sink, enum fate fate, int64_t now) {
  struct file *file = &sink->file;
  (void)fate;
  (void)now;
  if (!is_writing(sink) && file->written > 0) { /* it waited for room on the disk */
    file->torn = true;
    file->written = 0;
  }
  return sink->first + (is_writing(sink) ? 1 : 0);
}

const struct sink_operations sink_file_operations = {
    .offered = file_offered,
    .turn = file_turn,
    .stop = file_stop,
    .attach = file_attach,
    .discard = file_discard,
};
