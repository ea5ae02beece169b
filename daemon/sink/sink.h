/*
 * A sink: the destination of a session's results, in order. Three kinds share this interface: any number of readers on a
 * socket, a single one (standard output, a FIFO, the producer's own connection), or a file.
 *
 * A sink runs on its session's lane, or with large lossless results on another one. It is offered slots in EMITTING. For each
 * it reports first the fate of the result, then that the memory is no longer needed, each once. sink_attach() hands in a
 * reader's descriptor, and SINK_DETACHED returns it for the control loop to close.
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
/* Returns the flow of the pipeline's session with this number, or NULL. */
struct flow;
typedef struct flow *sink_flow_lookup(void *context, unsigned seat);
struct reader; /* an attached descriptor; reader_free() frees it after SINK_DETACHED */

enum sink_event_kind {
  SINK_DETACHED,  /* a reader's descriptor is returned */
  SINK_FAILED,    /* the file cannot be written: results are lost until SINK_RECOVERED */
  SINK_RECOVERED, /* the file can be written again */
  SINK_FULL,      /* the disk is full, and a result waits until old segments are removed */
  SINK_STOPPED    /* sink_stop() is done; sink_free() may follow */
};

struct sink_event {
  enum sink_event_kind kind;
  struct sink *sink;
  struct reader *reader; /* DETACHED: now owned by the receiver, to free */
  int fd;                /* DETACHED: now owned by the receiver, to close */
  /* DETACHED: results that this reader took and missed. RECOVERED: results that were lost. */
  uint64_t emitted, missed;
  bool full;      /* DETACHED: a segment has reached its end, so the next one is needed */
  int error;      /* FAILED: the errno */
  unsigned code;  /* DETACHED: ERROR code to send to this reader with `text`; 0: none */
  char text[256]; /* the reason, or empty */
};

typedef void sink_listener(void *context, const struct sink_event *event); /* runs on the control loop */

struct sink_setup {
  const struct config_pipeline *config; /* outlives the sink */
  struct lane *lane;
  struct mailbox *control;
  sink_listener *listener;
  void *context;
  const struct frame_format *input, *output;
  const char *const *labels; /* names of the classes in results, or NULL */
  unsigned label_count;
};

/* Makes the sink of a pipeline (not for `reply`). */
struct sink *sink_new(const struct sink_setup *setup, struct failure *failure);
/* True if results of this format can be lines of JSON. The other function returns the constant part of those lines. */
bool sink_writes_lines(const struct frame_format *output);
struct json_shape sink_line_shape(const struct config_pipeline *config, const struct frame_format *output,
                                  const char *const *labels, unsigned label_count);
/* Call before sink_adopt(): sets the kind, whatever the path names by now. */
void sink_set_kind(struct sink *sink, bool is_file);
struct sink *sink_free(struct sink *sink); /* after SINK_STOPPED, or if nothing was posted to it; returns NULL */

/* Copies the labels for lines of JSON. Results of frames with that number of stages (struct flow) use them from now on. Returns
 * false if the lines would be too long. For the control loop, while no such frame is on the device. */
bool sink_take_labels(struct sink *sink, unsigned stages, const char *const *labels, unsigned label_count);

/* -- from the control loop -------------------------------------------------------------------------------------- */

/* NULL without memory. */
struct reader *reader_new(struct sink *sink, int fd, struct failure *failure);
/* Call before the reader is attached. Allocates a buffer for the rest of a result, which this or any other reader may use. Does
 * nothing if the sink has enough, or if the reader needs none. sink_room_bytes() is its size, 0 under `block`. */
bool reader_bring_room(struct reader *reader, struct failure *failure);
size_t sink_room_bytes(const struct sink *sink);
/* Call before the reader is attached, if its protocol is not the sink's. */
void reader_set_protocol(struct reader *reader, enum config_protocol protocol);
/* Call before the reader is attached. It gets results in shared memory, by completions in this control memory, which is all
 * zero and outlives the reader. `memory` is the generation of the session's memory that it maps (frame/flow.h). Returns false
 * without memory. */
bool reader_share(struct reader *reader, struct native_control *control, unsigned memory);
struct reader *reader_free(struct reader *reader);
/* [any thread] Results that this reader took and missed so far. */
void reader_read(const struct reader *reader, uint64_t *emitted, uint64_t *missed);

/* Adds a reader. All kinds but a socket take exactly one. Results are appended to a regular file: see sink_prepare_file(). */
void sink_attach(struct sink *sink, struct reader *reader);
/* Attaches the readers that were taken over from the previous process. */
void sink_continue(struct sink *sink);
/* Times of a segment. CLOCK_MONOTONIC measures how long it lasts. One reading of CLOCK_REALTIME determines all times in its
 * index, so that no clock step falls between two of its frames. */
struct segment_times {
  int64_t began;   /* CLOCK_MONOTONIC ns; 0: ends as soon as possible */
  int64_t shift;   /* CLOCK_REALTIME - CLOCK_MONOTONIC at its begin */
  int64_t hold_ns; /* minimum duration */
};

/* The reader's file is a segment. Its results get entries in `index`, which has `count` of them already. */
void reader_keep_index(struct reader *reader, int index, uint64_t count, const struct segment_times *times);
int reader_index(const struct reader *reader, uint64_t *count); /* after SINK_DETACHED */
/* [no lane runs] Writes all offered results to the segment. Returns false if that fails. */
bool sink_flush_segment(struct sink *sink);
/* [lane] Ends the segment if it has a result; otherwise before its first one. */
void sink_end_segment(struct sink *sink);
/* SINK_DETACHED returns the file after the current result. Later results wait for the next file. */
void sink_detach_file(struct sink *sink);
/* Detaches every reader, then posts SINK_STOPPED. The session must have discarded all results as `shutdown` before. */
void sink_stop(struct sink *sink);

/* [any thread] CLOCK_MONOTONIC ns since when a request to the file is under way; 0: none. */
int64_t sink_asked(const struct sink *sink);

/* Bytes that a result takes in a file, with its prefix. 1 for json, whose results end with a newline. 0: too large. */
uint64_t sink_result_bytes_in_file(const struct config_pipeline *config, const struct frame_format *output);
/* Checks that results can be appended to a regular file. A y4m file must be empty or begin with a header of this format, at any
 * rate. A partial result at the end is refused with a sentence that says so. Blocks: for a set-up thread. */
bool sink_prepare_file(const struct config_pipeline *config, const struct frame_format *output, int fd,
                       struct failure *failure);
/* Cuts off a partial result at the end, for a file that a killed process was writing. Returns its bytes; 0: the last result was
 * complete, or sink_prepare_file() will report an error. */
uint64_t sink_cut_torn(const struct config_pipeline *config, const struct frame_format *output, int fd);

#endif
