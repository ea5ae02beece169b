/*
 * A sink: where a session's results go, in order. Three kinds behind one interface: any number of readers of a
 * socket, just one (standard output, a FIFO, the producer's own connection), a file.
 *
 * A sink lives on its session's lane, or with large lossless results on another one. It is offered slots in EMITTING and gives
 * each back through two calls: the result has its fate (once), the slot's memory is no longer needed (once). Readers are
 * descriptors that sink_attach() hands in and that come back in SINK_DETACHED, for the control loop to close.
 */
#ifndef FRAMED_SINK_SINK_H
#define FRAMED_SINK_SINK_H

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/base/lane.h"
#include "daemon/device/device.h"
#include "daemon/wire/json.h"

struct sink;
struct native_control;
/* The flow of the session on a seat of the pipeline; NULL: there is none. */
struct flow;
typedef struct flow *sink_flow_lookup(void *context, unsigned seat);
struct reader; /* one attached descriptor; freed after SINK_DETACHED by reader_free() */

enum sink_event_kind {
  SINK_DETACHED,  /* a reader's descriptor is given back */
  SINK_FAILED,    /* the file cannot be written: results are lost until SINK_RECOVERED */
  SINK_RECOVERED, /* it can be written again */
  SINK_FULL,      /* the disk of a segment is full, and a result waits for old ones to be removed */
  SINK_STOPPED    /* sink_stop() is done; sink_free() may follow */
};

struct sink_event {
  enum sink_event_kind kind;
  struct sink *sink;
  struct reader *reader;    /* DETACHED: now the receiver's, to free */
  int fd;                   /* DETACHED: now the receiver's, to close */
  uint64_t emitted, missed; /* DETACHED: results this reader took whole, and missed whole; RECOVERED: lost */
  bool full;                /* DETACHED: of a segment that has its end, so that the next one is wanted */
  int error;                /* FAILED: the errno */
  unsigned code;            /* DETACHED: the ERROR that this reader is still to be told, with `text`; 0: none */
  char text[256];           /* why, or empty */
};

typedef void sink_listener(void *context, const struct sink_event *event); /* runs on the control loop */

struct sink_setup {
  const struct config_pipeline *config; /* outlives the sink */
  struct lane *lane;
  struct mailbox *control;
  sink_listener *listener;
  void *context;
  const struct frame_format *input, *output;
  const char *const *labels; /* of the classes in results, or NULL */
  unsigned label_count;
};

/* Makes the sink of a pipeline (not for `reply`). */
struct sink *sink_new(const struct sink_setup *setup, struct failure *failure);
/* Whether results of this format can be lines of JSON, and what these have in common if they can. */
bool sink_writes_lines(const struct frame_format *output);
struct json_shape sink_line_shape(const struct config_pipeline *config, const struct frame_format *output,
                                  const char *const *labels, unsigned label_count);
/* Before sink_adopt(): whether the sink is to a file, also if its path names something else by now. */
void sink_be_file(struct sink *sink, bool is_file);
struct sink *sink_free(struct sink *sink); /* after SINK_STOPPED, or if nothing was posted to it; returns NULL */

/* Whether the sink has room for lines of JSON with these labels, which it copies: results of frames that go through stages with
 * that number (see struct flow) have them from now on. Control loop, while no such frame is on the device. */
bool sink_take_labels(struct sink *sink, unsigned stages, const char *const *labels, unsigned label_count);

/* -- from the control loop -------------------------------------------------------------------------------------- */

/* NULL if there is no memory. */
struct reader *reader_new(struct sink *sink, int fd, struct failure *failure);
/* Before the reader is attached: makes room for the rest of a result, for this or any other reader, unless the sink has enough
 * of it or the reader needs none: so many bytes for each reader, under `block` none. */
bool reader_bring_room(struct reader *reader, struct failure *failure);
size_t sink_room_bytes(const struct sink *sink);
/* Before the reader is attached: another protocol than the sink's. */
void reader_speak(struct reader *reader, enum config_protocol protocol);
/* Before the reader is attached: it takes results where they lie, by completions in this control memory, which is all zero and
 * stays until the reader is freed. `memory` says which of the session's it sees (see frame/flow.h). False if there is no
 * memory. */
bool reader_share(struct reader *reader, struct native_control *control, unsigned memory);
struct reader *reader_free(struct reader *reader);
/* Results this reader took and missed so far; any thread. */
void reader_read(const struct reader *reader, uint64_t *emitted, uint64_t *missed);

/* Adds a reader; all but a socket take exactly one. A regular file is continued at its end: see
 * sink_prepare_file(). */
void sink_attach(struct sink *sink, struct reader *reader);
/* A sink of the process before this one goes on with its readers. */
void sink_continue(struct sink *sink);
/* The times of a segment. One clock measures how long it takes, and one reading of the other gives all times in its index, so
 * that a step of the system's clock does not come between two of its frames. */
struct segment_times {
  int64_t began;   /* CLOCK_MONOTONIC ns; 0: it is over as soon as it may */
  int64_t shift;   /* how far CLOCK_REALTIME was ahead of that when it began */
  int64_t hold_ns; /* how long it goes on in any case */
};

/* A reader of a file is one segment, beside which results are entered in this index behind `count` of them. */
void reader_keep_index(struct reader *reader, int index, uint64_t count, const struct segment_times *times);
int reader_index(const struct reader *reader, uint64_t *count); /* after SINK_DETACHED */
/* [no lane runs] Writes what has been offered to a segment. False: not all of it can be. */
bool sink_flush_segment(struct sink *sink);
/* [lane] The segment has its end once it has a result, or before its first one. */
void sink_end_segment(struct sink *sink);
/* The file comes back in SINK_DETACHED, between two results; those that come meanwhile wait for the next one. */
void sink_let_go(struct sink *sink);
/* Detaches every reader; results still waiting get `shutdown` from their session first. Then SINK_STOPPED. */
void sink_stop(struct sink *sink);

/* Since when a request to the file is under way: CLOCK_MONOTONIC ns; 0: none is. Any thread. */
int64_t sink_asked(const struct sink *sink);

/* How many bytes a result takes in a file, with the line before it; of json, whose results end with a newline, 1; 0: more than
 * can be. */
uint64_t sink_result_bytes_in_file(const struct config_pipeline *config, const struct frame_format *output);
/* Makes a regular file fit to be continued: a y4m file must be empty or start with the header of these results, at any rate; a
 * torn last result is refused with a sentence that says so. Blocks: for a set-up thread. */
bool sink_prepare_file(const struct config_pipeline *config, const struct frame_format *output, int fd,
                       struct failure *failure);
/* The same for a file that a process was writing when it was killed: a torn last result is cut off. Returns its bytes, 0 if
 * there was none, or it is for sink_prepare_file() to say what is wrong. */
uint64_t sink_cut_torn(const struct config_pipeline *config, const struct frame_format *output, int fd);

#endif
