#include "daemon/status/trace.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 1024 };

/* -- what is taken ----------------------------------------------------------------------------------------------- */

struct trace *trace_new(unsigned *alive) {
  struct trace *trace = calloc(1, sizeof *trace);
  if (trace && alive) {
    trace->alive = alive;
    (*alive)++;
  }
  return trace;
}

struct trace *trace_free(struct trace *trace) {
  if (trace) {
    if (trace->alive) {
      (*trace->alive)--;
    }
    free(trace->subjects);
    free(trace->frames);
    free(trace);
  }
  return NULL;
}

bool trace_add_subject(struct trace *trace, const struct trace_subject *subject) {
  struct trace_subject *subjects = realloc(trace->subjects, (trace->subject_count + 1) * sizeof *subjects);
  if (!subjects) {
    return false;
  }
  trace->subjects = subjects;
  trace->subjects[trace->subject_count++] = *subject;
  return true;
}

static bool trace_make_room(struct trace *trace, unsigned wanted) {
  unsigned room = trace->frame_room ? trace->frame_room : FIRST_ROOM;
  while (room < wanted) {
    room *= 2;
  }
  if (room != trace->frame_room) {
    struct trace_frame *frames = realloc(trace->frames, room * sizeof *frames);
    if (!frames) {
      return false;
    }
    trace->frames = frames;
    trace->frame_room = room;
  }
  return true;
}

bool trace_add_records(struct trace *trace, unsigned subject, const struct trace_record *records, unsigned count) {
  unsigned left = TRACE_MOST_FRAMES - trace->frame_count;
  bool fits = count <= left;
  count = fits ? count : left;
  if (!trace_make_room(trace, trace->frame_count + count)) {
    return false;
  }
  for (unsigned i = 0; i < count; i++) {
    trace->frames[trace->frame_count++] = (struct trace_frame){.record = records[i], .subject = subject};
  }
  return fits;
}

/* -- spans -------------------------------------------------------------------------------------------------------- */

/* A time from the device may be a little later than what the host saw of it: then the span is empty, as in histograms. */
static struct trace_span span(int64_t begin, int64_t end) {
  return (struct trace_span){.begin = begin < end ? begin : end, .end = end};
}

/* A step that took no service was over when the times of a later one had been read, which got what was this one's: it may have
 * begun as soon as its stream came to it, and part_spans() gives it its share. */
static struct trace_span served(int64_t from, int64_t service, int64_t end) {
  return span(service > 0 ? end - service : from, end);
}

static void make_device_spans(struct trace_frame *frame) {
  const struct trace_record *record = &frame->record;
  frame->parts[TRACE_STREAM] = span(record->begin, record->copied_out);
  frame->parts[TRACE_KERNEL] = served(record->copied_in, record->kernel, record->computed);
  if (record->instance > 0) {
    frame->parts[TRACE_MODEL] = span(record->modelled - record->model, record->modelled);
  }
  if (record->copied_in > record->begin) {
    frame->parts[TRACE_COPY_IN] = served(record->begin, record->h2d, record->copied_in);
  }
  if (record->copied_out > record->computed) {
    frame->parts[TRACE_COPY_OUT] = served(record->computed, record->d2h, record->copied_out);
  }
  if (record->seen) {
    frame->parts[TRACE_WAKE] = span(record->copied_out, record->seen);
  }
}

static void make_spans(struct trace_frame *frame) {
  const struct trace_record *record = &frame->record;
  if (record->complete) {
    frame->parts[TRACE_RECEIVE] = span(record->first_byte, record->complete);
  }
  if (record->dispatched) {
    frame->parts[TRACE_QUEUE] = span(record->complete, record->dispatched);
  }
  if (record->begin) {
    make_device_spans(frame);
  }
  if (record->fate == FATE_EMITTED) {
    frame->parts[TRACE_EMIT] = span(record->seen, record->settled);
  }
}

/* -- rows --------------------------------------------------------------------------------------------------------- */

/* Frames that have a part, in the order in which they are looked at. */
struct trace_sorting {
  const struct trace *trace;
  enum trace_part part;
  unsigned *frames, count;
};

/* The group of a frame: frames of one group share rows, or the engine or stream that serves them. */
static uint64_t group_of(const struct trace_sorting *order, const struct trace_frame *frame) {
  const struct trace_subject *subject = &order->trace->subjects[frame->subject];
  switch (order->part) {
  case TRACE_COPY_IN:
  case TRACE_COPY_OUT:
    return (uint64_t)subject->copies_by_kernel << 32 | trace_device(order->trace, frame);
  case TRACE_KERNEL:
    return trace_device(order->trace, frame);
  case TRACE_STREAM:
    return (uint64_t)frame->subject << 32 | frame->record.stream;
  default:
    return frame->subject;
  }
}

/* Host parts by their beginning; on the device, where ends are in order, by their end. */
static int64_t part_moment(const struct trace_sorting *order, const struct trace_frame *frame) {
  const struct trace_span *part = &frame->parts[order->part];
  return order->part < TRACE_HOST_PARTS ? part->begin : part->end;
}

static int compare(const void *left, const void *right, void *context) {
  const struct trace_sorting *order = context;
  unsigned one = *(const unsigned *)left, other = *(const unsigned *)right;
  const struct trace_frame *frames = order->trace->frames;
  uint64_t group = group_of(order, &frames[one]), other_group = group_of(order, &frames[other]);
  if (group != other_group) {
    return group < other_group ? -1 : 1;
  }
  int64_t moment = part_moment(order, &frames[one]), other_moment = part_moment(order, &frames[other]);
  if (moment != other_moment) {
    return moment < other_moment ? -1 : 1;
  }
  return one < other ? -1 : one > other;
}

static void sort(struct trace_sorting *order, enum trace_part part) {
  order->part = part;
  order->count = 0;
  for (unsigned i = 0; i < order->trace->frame_count; i++) {
    if (trace_has(&order->trace->frames[i], part)) {
      order->frames[order->count++] = i;
    }
  }
  qsort_r(order->frames, order->count, sizeof *order->frames, compare, order);
}

/* The first row that is free by then; a row more if there is none. */
static void take_row(struct trace_frame *frame, enum trace_part part, int64_t ends[TRACE_ROWS], unsigned *rows) {
  unsigned row = 0;
  while (row < *rows && ends[row] > frame->parts[part].begin) {
    row++;
  }
  if (row == TRACE_ROWS) {
    frame->parts[part] = (struct trace_span){0};
    return;
  }
  *rows = row == *rows ? row + 1 : *rows;
  ends[row] = frame->parts[part].end;
  frame->rows[part] = (uint8_t)row;
}

static void share_rows(struct trace *trace, struct trace_sorting *order, enum trace_part part) {
  int64_t ends[TRACE_ROWS] = {0};
  sort(order, part);
  for (unsigned i = 0; i < order->count; i++) {
    struct trace_frame *frame = &trace->frames[order->frames[i]];
    take_row(frame, part, ends, &trace->subjects[frame->subject].rows[part]);
  }
}

static int64_t service_of(const struct trace_frame *frame, enum trace_part part) {
  return part == TRACE_COPY_IN ? frame->record.h2d : part == TRACE_KERNEL ? frame->record.kernel : frame->record.d2h;
}

static bool may_run_beside_others(const struct trace_sorting *order, const struct trace_frame *frame) {
  return order->part == TRACE_KERNEL ||
         (order->part != TRACE_STREAM && order->trace->subjects[frame->subject].copies_by_kernel);
}

/* What shares an engine or a stream follows one another on the device's own clock, but between two anchors of that clock
 * times may differ by some microseconds: a span begins no earlier than the one before it ended. Kernels of several streams may
 * run at once, and so may copies that kernels make: of these, only one that took no service has what those before it left. */
static void part_spans(struct trace *trace, struct trace_sorting *order, enum trace_part part) {
  sort(order, part);
  for (unsigned i = 1; i < order->count; i++) {
    const struct trace_frame *before = &trace->frames[order->frames[i - 1]];
    struct trace_frame *frame = &trace->frames[order->frames[i]];
    struct trace_span *this = &frame->parts[part];
    bool follows = group_of(order, before) == group_of(order, frame) &&
                   (!may_run_beside_others(order, frame) || service_of(frame, part) == 0);
    if (follows && this->begin < before->parts[part].end) {
      this->begin = before->parts[part].end;
    }
  }
}

static void keep_within_stream(struct trace_frame *frame) {
  for (enum trace_part part = TRACE_COPY_IN; part <= TRACE_COPY_OUT; part++) {
    struct trace_span *this = &frame->parts[part];
    if (trace_has(frame, part) && this->begin < frame->parts[TRACE_STREAM].begin) {
      *this = span(frame->parts[TRACE_STREAM].begin, this->end);
    }
  }
}

/* A kernel span begins later than its model where the engine had another frame until then. */
static void keep_within_kernel(struct trace_frame *frame) {
  const struct trace_span *kernel = &frame->parts[TRACE_KERNEL];
  struct trace_span *model = &frame->parts[TRACE_MODEL];
  model->begin = model->begin > kernel->begin ? model->begin : kernel->begin;
  model->end = model->end < kernel->end ? model->end : kernel->end;
  if (model->begin >= model->end) {
    *model = (struct trace_span){0};
  }
}

static void note_rows(struct trace *trace) {
  for (unsigned i = 0; i < trace->frame_count; i++) {
    struct trace_frame *frame = &trace->frames[i];
    struct trace_subject *subject = &trace->subjects[frame->subject];
    subject->drops |= frame->record.fate != FATE_EMITTED;
    subject->engines |= trace_on_engine(trace, frame, TRACE_COPY_IN) || trace_on_engine(trace, frame, TRACE_COPY_OUT);
    if (trace_has(frame, TRACE_STREAM)) {
      keep_within_stream(frame);
      keep_within_kernel(frame);
      subject->streams = subject->streams > frame->record.stream ? subject->streams : frame->record.stream + 1;
    }
  }
}

bool trace_lay_out(struct trace *trace) {
  struct trace_sorting order = {.trace = trace, .frames = malloc((trace->frame_count + 1) * sizeof *order.frames)};
  if (!order.frames) {
    return false;
  }
  for (unsigned i = 0; i < trace->frame_count; i++) {
    make_spans(&trace->frames[i]);
  }
  for (enum trace_part part = 0; part < TRACE_HOST_PARTS; part++) {
    share_rows(trace, &order, part);
  }
  part_spans(trace, &order, TRACE_STREAM);
  part_spans(trace, &order, TRACE_COPY_IN);
  part_spans(trace, &order, TRACE_KERNEL);
  part_spans(trace, &order, TRACE_COPY_OUT);
  note_rows(trace);
  free(order.frames);
  return true;
}
