/*
 * A trace: what became of frames while it was taken, laid out on rows as a viewer shows them.
 *
 * Each step of a frame's way is a span on a row. On a row no two spans overlap, but for those of a stream, where a frame's
 * steps on the device lie within the frame. Frames of a session may be in one step at once, so each host step has as many rows
 * as that takes. Spans are as long as what the histograms recorded of the same frame, except where frames' times were not read
 * in the order in which an engine had the frames: there a span is as long as the engine was at the frame.
 */
#ifndef FRAMED_STATUS_TRACE_H
#define FRAMED_STATUS_TRACE_H

#include "daemon/frame/trace_ring.h"

enum {
  TRACE_MOST_FRAMES = 32768, /* of one trace: about 60 MB of text */
  TRACE_NAME = 65,
  TRACE_ROWS = 32 /* of one step; frames beyond these lack the span */
};

enum trace_part {
  TRACE_RECEIVE, /* the host's: each session has its rows for each */
  TRACE_QUEUE,
  TRACE_WAKE,
  TRACE_EMIT,
  TRACE_HOST_PARTS,
  TRACE_STREAM = TRACE_HOST_PARTS, /* a frame on its stream, and within it: */
  TRACE_COPY_IN,
  TRACE_KERNEL,
  TRACE_MODEL, /* within the kernel */
  TRACE_COPY_OUT,
  TRACE_PARTS
};

struct trace_span {
  int64_t begin, end; /* CLOCK_MONOTONIC ns; both 0: there is none */
};

/* One session. */
struct trace_subject {
  char pipeline[TRACE_NAME];
  unsigned session, sessions; /* which of how many of its pipeline */
  unsigned device_count;
  uint8_t devices[GPU_MAX_SLOTS];           /* their numbers; streams have them in turn */
  bool copies_by_kernel;                    /* and not by the device's copy engines */
  unsigned rows[TRACE_HOST_PARTS], streams; /* how many there are, after trace_lay_out() */
  bool engines, drops;                      /* copy engines have some of its frames */
};

struct trace_frame {
  struct trace_record record;
  unsigned subject;
  struct trace_span parts[TRACE_PARTS]; /* after trace_lay_out(), with `rows` */
  uint8_t rows[TRACE_HOST_PARTS];
};

struct trace {
  unsigned *alive; /* how many traces the maker has: trace_free() takes one off; or NULL */
  const char *backend;
  int64_t began, ended; /* CLOCK_MONOTONIC ns */
  bool full;            /* it ended early, without room for more frames */
  uint64_t overwritten; /* frames that are missing, because the ring was read too late */
  struct trace_subject *subjects;
  unsigned subject_count;
  struct trace_frame *frames;
  unsigned frame_count, frame_room;
};

/* Counts itself in `*alive`. NULL if there is no memory. */
struct trace *trace_new(unsigned *alive);
struct trace *trace_free(struct trace *trace); /* NULL is fine; returns NULL */

/* Takes note of a session, whose number is `subject_count` before; false if there is no memory. */
bool trace_add_subject(struct trace *trace, const struct trace_subject *subject);
/* Takes what fits of these records of one session. False: it is full, or there is no memory for more. */
bool trace_add_records(struct trace *trace, unsigned subject, const struct trace_record *records, unsigned count);
/* Makes spans and rows of the records. Takes a while: for a worker thread. False if there is no memory. */
bool trace_lay_out(struct trace *trace);

static inline unsigned trace_device(const struct trace *trace, const struct trace_frame *frame) {
  const struct trace_subject *subject = &trace->subjects[frame->subject];
  return subject->devices[frame->record.stream % subject->device_count];
}

static inline bool trace_has(const struct trace_frame *frame, enum trace_part part) { return frame->parts[part].begin != 0; }

/* Whether a copy engine had this part: kernels that copy need none. */
static inline bool trace_on_engine(const struct trace *trace, const struct trace_frame *frame, enum trace_part part) {
  bool is_copy = part == TRACE_COPY_IN || part == TRACE_COPY_OUT;
  return is_copy && trace_has(frame, part) && !trace->subjects[frame->subject].copies_by_kernel;
}

#endif
