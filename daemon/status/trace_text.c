#include "daemon/status/trace_text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest piece names every row of a session: 147 rows of two lines of less than 160 bytes each. */
enum { PIECE = 49152 };

/* Viewers show these numbers behind the names, and put rows in their order; but a row with the number of a process, as a main
 * thread has it, would be the first one there. There are at most 64 devices. */
enum { PROCESS_FRAMED = 1, PROCESS_DEVICE = 2, PROCESS_SESSION = 1000 };
enum { ROW_TRACE = 100, ROW_COPY_IN = 100, ROW_COPY_OUT = 200, ROW_STREAM = 300, ROW_DROPPED = 600 };

/* A part's first row, in the order of the flow, and what it is called there. */
static const struct {
  unsigned row;
  const char *name;
} parts[TRACE_PARTS] = {
    [TRACE_RECEIVE] = {100, "receive"},
    [TRACE_QUEUE] = {200, "queue"},
    [TRACE_WAKE] = {400, "wake"},
    [TRACE_EMIT] = {500, "emit"},
    [TRACE_STREAM] = {ROW_STREAM, "frame"},
    [TRACE_COPY_IN] = {ROW_STREAM, "copy in"},
    [TRACE_KERNEL] = {ROW_STREAM, "kernel"},
    [TRACE_MODEL] = {ROW_STREAM, "model"},
    [TRACE_COPY_OUT] = {ROW_STREAM, "copy out"},
};

struct trace_text {
  struct trace *trace;
  unsigned subject, frame; /* what comes next */
  bool headed, ended;
  size_t at, length;
  char piece[PIECE];
};

struct trace_text *trace_text_new(struct trace *trace) {
  struct trace_text *text = malloc(sizeof *text);
  if (!text) {
    trace_free(trace);
    return NULL;
  }
  memset(text, 0, offsetof(struct trace_text, piece));
  text->trace = trace;
  return text;
}

struct trace_text *trace_text_free(struct trace_text *text) {
  if (text) {
    trace_free(text->trace);
    free(text);
  }
  return NULL;
}

/* -- lines -------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void text_put(struct trace_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->piece + text->length, PIECE - text->length, format, arguments);
  va_end(arguments);
  assert(length >= 0 && text->length + (size_t)length < PIECE);
  text->length += (size_t)length;
}

static void put_time(struct trace_text *text, const char *key, int64_t ns) {
  text_put(text, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* Where an event belongs. */
struct row {
  unsigned process, thread;
};

static void begin_event(struct trace_text *text, const char *phase, struct row row) {
  text_put(text, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase, row.process, row.thread);
}

/* -- the head ------------------------------------------------------------------------------------------------------- */

/* Names hold letters, digits, '_', '-' and '.' alone. */
static void name_process(struct trace_text *text, unsigned process, const char *name) {
  begin_event(text, "M", (struct row){process, 0});
  text_put(text, ",\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}", name);
}

static void name_thread(struct trace_text *text, struct row row, const char *name, unsigned number) {
  begin_event(text, "M", row);
  text_put(text, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s", name);
  text_put(text, number > 0 ? " %u\"}}" : "\"}}", number);
  begin_event(text, "M", row);
  text_put(text, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}", row.thread);
}

static void put_head(struct trace_text *text) {
  const struct trace *trace = text->trace;
  text_put(text, "[\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%d,\"name\":\"trace\"", PROCESS_FRAMED, ROW_TRACE);
  put_time(text, "ts", trace->began);
  text_put(text, ",\"args\":{\"frames\":%u,\"overwritten\":%" PRIu64 ",\"full\":%s,\"seconds\":%.3f,\"backend\":\"%s\"}}",
           trace->frame_count, trace->overwritten, trace->full ? "true" : "false", (double)(trace->ended - trace->began) / 1e9,
           trace->backend);
  name_process(text, PROCESS_FRAMED, "framed");
  name_thread(text, (struct row){PROCESS_FRAMED, ROW_TRACE}, "trace", 0);
}

/* -- sessions and devices ------------------------------------------------------------------------------------------- */

static bool is_first_of_device(const struct trace *trace, unsigned subject, unsigned device) {
  for (unsigned i = 0; i < subject; i++) {
    const struct trace_subject *before = &trace->subjects[i];
    for (unsigned j = 0; j < before->device_count && before->engines; j++) {
      if (before->devices[j] == device) {
        return false;
      }
    }
  }
  return true;
}

static void put_device(struct trace_text *text, unsigned device) {
  char name[32];
  unsigned process = PROCESS_DEVICE + device;
  snprintf(name, sizeof name, "device %u", device);
  name_process(text, process, name);
  name_thread(text, (struct row){process, ROW_COPY_IN}, "copy engine in", 0);
  name_thread(text, (struct row){process, ROW_COPY_OUT}, "copy engine out", 0);
}

static bool subject_is_empty(const struct trace_subject *subject) {
  return subject->streams == 0 && subject->rows[TRACE_RECEIVE] == 0 && !subject->drops;
}

static void put_subject(struct trace_text *text, unsigned number) {
  const struct trace_subject *subject = &text->trace->subjects[number];
  unsigned process = PROCESS_SESSION + number;
  char name[TRACE_NAME + 32], stream[32];
  int length = snprintf(name, sizeof name, "%s", subject->pipeline);
  if (subject->sessions > 1) {
    snprintf(name + length, sizeof name - (size_t)length, " session %u", subject->session);
  }
  name_process(text, process, name);
  for (enum trace_part part = 0; part < TRACE_HOST_PARTS; part++) {
    for (unsigned row = 0; row < subject->rows[part]; row++) { /* "queue", "queue 2", ... */
      name_thread(text, (struct row){process, parts[part].row + row}, parts[part].name, row > 0 ? row + 1 : 0);
    }
  }
  for (unsigned i = 0; i < subject->streams; i++) {
    const unsigned device = subject->devices[i % subject->device_count];
    snprintf(stream, sizeof stream, subject->device_count > 1 ? "stream %u on device %u" : "stream %u", i, device);
    name_thread(text, (struct row){process, ROW_STREAM + i}, stream, 0);
  }
  if (subject->drops) {
    name_thread(text, (struct row){process, ROW_DROPPED}, "dropped", 0);
  }
  for (unsigned i = 0; i < subject->device_count && subject->engines; i++) {
    if (is_first_of_device(text->trace, number, subject->devices[i])) {
      put_device(text, subject->devices[i]);
    }
  }
}

/* -- frames --------------------------------------------------------------------------------------------------------- */

/* Viewers show a span without length as an event of its own: it gets the nanosecond before, in which nothing else can begin. */
static struct trace_span shown(const struct trace_frame *frame, enum trace_part part) {
  struct trace_span span = frame->parts[part];
  span.begin -= span.begin == span.end;
  return span;
}

static void put_span(struct trace_text *text, const struct trace_frame *frame, enum trace_part part, struct row row) {
  struct trace_span span = shown(frame, part);
  begin_event(text, "X", row);
  put_time(text, "ts", span.begin);
  put_time(text, "dur", span.end - span.begin);
  text_put(text, ",\"name\":\"%s\",\"args\":{\"frame\":%" PRIu64 ",\"epoch\":%" PRIu64, parts[part].name,
           frame->record.sequence, frame->record.epoch);
  if (part == TRACE_MODEL) {
    text_put(text, ",\"instance\":%" PRIu64, frame->record.instance);
  }
  if (part == TRACE_MODEL && frame->record.batch > 0) {
    text_put(text, ",\"batch\":%" PRIu64, frame->record.batch);
  }
  text_put(text, "}}");
}

static struct row row_of(const struct trace_frame *frame, enum trace_part part) {
  unsigned beside = part < TRACE_HOST_PARTS ? frame->rows[part] : frame->record.stream;
  return (struct row){PROCESS_SESSION + frame->subject, parts[part].row + beside};
}

static struct row engine_row(const struct trace_text *text, const struct trace_frame *frame, enum trace_part part) {
  return (struct row){PROCESS_DEVICE + trace_device(text->trace, frame), part == TRACE_COPY_IN ? ROW_COPY_IN : ROW_COPY_OUT};
}

/* An arrow goes on where it was last, to the span that encloses `at` on that row. */
static void put_arrow(struct trace_text *text, const struct trace_frame *frame, const char *phase, struct row row, int64_t at) {
  begin_event(text, phase, row);
  put_time(text, "ts", at);
  text_put(text, ",\"name\":\"frame\",\"cat\":\"frame\",\"id\":%u%s}", (unsigned)(frame - text->trace->frames) + 1,
           phase[0] == 's' ? "" : ",\"bp\":\"e\"");
}

/* The way of a frame, from span to span. */
static const enum trace_part way[] = {TRACE_RECEIVE,  TRACE_QUEUE, TRACE_COPY_IN, TRACE_KERNEL,
                                      TRACE_COPY_OUT, TRACE_WAKE,  TRACE_EMIT};
enum { WAY = sizeof way / sizeof way[0] };

static void put_arrows(struct trace_text *text, const struct trace_frame *frame) {
  enum trace_part found[WAY];
  int count = 0;
  for (int i = 0; i < WAY; i++) {
    if (trace_has(frame, way[i])) {
      found[count++] = way[i];
    }
  }
  for (int i = 0; i < count && count > 1; i++) {
    enum trace_part part = found[i];
    struct row row = trace_on_engine(text->trace, frame, part) ? engine_row(text, frame, part) : row_of(frame, part);
    put_arrow(text, frame, i == 0 ? "s" : i == count - 1 ? "f" : "t", row, shown(frame, part).begin);
  }
}

static void put_frame(struct trace_text *text, const struct trace_frame *frame) {
  for (enum trace_part part = 0; part < TRACE_PARTS; part++) {
    if (trace_has(frame, part)) {
      put_span(text, frame, part, row_of(frame, part));
    }
    if (trace_on_engine(text->trace, frame, part)) {
      put_span(text, frame, part, engine_row(text, frame, part));
    }
  }
  put_arrows(text, frame);
  if (frame->record.fate != FATE_EMITTED) {
    begin_event(text, "i", (struct row){PROCESS_SESSION + frame->subject, ROW_DROPPED});
    put_time(text, "ts", frame->record.settled);
    text_put(text, ",\"s\":\"t\",\"name\":\"%s\",\"args\":{\"frame\":%" PRIu64 ",\"epoch\":%" PRIu64 "}}",
             fate_names[frame->record.fate], frame->record.sequence, frame->record.epoch);
  }
}

/* -- pieces --------------------------------------------------------------------------------------------------------- */

static bool next_piece(struct trace_text *text) {
  const struct trace *trace = text->trace;
  text->at = text->length = 0;
  while (text->headed && text->subject < trace->subject_count && subject_is_empty(&trace->subjects[text->subject])) {
    text->subject++;
  }
  if (!text->headed) {
    put_head(text);
    text->headed = true;
  } else if (text->subject < trace->subject_count) {
    put_subject(text, text->subject++);
  } else if (text->frame < trace->frame_count) {
    put_frame(text, &trace->frames[text->frame++]);
  } else if (!text->ended) {
    text_put(text, "\n]\n");
    text->ended = true;
  }
  return text->length > 0;
}

size_t trace_text_read(struct trace_text *text, char *bytes, size_t room) {
  size_t done = 0;
  while (done < room && (text->at < text->length || next_piece(text))) {
    size_t part = text->length - text->at < room - done ? text->length - text->at : room - done;
    memcpy(bytes + done, text->piece + text->at, part);
    text->at += part;
    done += part;
  }
  return done;
}
