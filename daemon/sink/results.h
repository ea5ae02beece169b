/*
 * The records of a sink: its queue of results, its readers, its file. For the files of this room, and for the session that
 * offers results.
 *
 * A result is a slot in EMITTING with whether its frame has a fate. Results are released strictly in order. The slot returns to
 * its flow when nobody needs its memory any more. The frame gets its fate once: here, or later from a slow reader that took the
 * rest into its own buffer.
 *
 * Sinks, readers and their rests live in the image (state/image.h). A released result keeps its place in the queue until
 * another one needs it. So after a kill its fate is known even if its session had not read it yet.
 */
#ifndef FRAMED_SINK_RESULTS_H
#define FRAMED_SINK_RESULTS_H

#include <stdatomic.h>

#include "daemon/frame/flow.h"
#include "daemon/sink/sink.h"
#include "daemon/state/image.h"
#include "daemon/wire/json.h"
#include "daemon/wire/native.h"
#include "daemon/wire/segment.h"

enum result_state {
  RESULT_SETTLED, /* its frame has its fate */
  RESULT_OPEN,    /* its frame has no fate yet, and is in its slot */
  RESULT_MOVED    /* its frame has no fate yet, and is in a struct pending: see rest.c */
};

struct result {
  struct sink *sink;
  struct flow *flow;
  struct slot *slot; /* holds the frame; NULL once the result is released */
  uint64_t sequence; /* identify the frame, its slot and its session, also after the release */
  unsigned producer, index, seat;
  enum result_state state;
  enum fate fate;                            /* valid once it is settled */
  int64_t end;                               /* offset of its end in the file once it is written; 0: not written */
  unsigned char native[NATIVE_RESULT_BYTES]; /* header that precedes it for native readers */
  size_t line_bytes;                         /* length of its line of JSON; 0: not made yet */
};

/* A frame whose slot was taken back while readers still have to send the rest of its result. The only kind of frame that is not
 * in a slot. */
struct pending {
  struct flow *flow;
  struct frame frame;
  unsigned seat; /* number of the session */
  unsigned holders;
  struct pending *next;
};

/* [sink's lane] The reader of a `reply` sink leaves, or with `closed` its handle is closed. Called once for each. */
typedef void sink_gone(void *session, bool closed, const char *why);

struct sink_operations {
  /* A result was added to the end of the queue. */
  void (*offered)(struct sink *sink);
  /* Moves bytes. Returns true if more can be done at once. */
  bool (*turn)(struct sink *sink, int64_t now);
  /* Ends the sink, at once or later; calls sink_stopped() when done. */
  void (*stop)(struct sink *sink);
  void (*attach)(struct sink *sink, struct reader *reader);
  /* `reply` only: detaches its reader. */
  void (*detach)(struct sink *sink);
  /* `drop` only: frees the slot of the oldest result now; its readers lose out. Returns false without such a result. */
  bool (*reclaim)(struct sink *sink, int64_t now);
  /* Releases every result except one that is being written. Returns the first result that may get the fate now. */
  uint64_t (*discard)(struct sink *sink, enum fate fate, int64_t now);
};

/* An event on its way to the control loop. Embedded in its sink or reader, so that sending allocates nothing. */
struct sink_notice {
  struct message message;
  atomic_bool posted;
  struct sink_event event;
};

/* A buffer for the rest of a result: see rest.c. */
struct room {
  struct room *next;
  unsigned char bytes[];
};

/* Further state of a reader that is a file: either one segment, or the whole file. */
struct segment {
  int index;      /* descriptor of its index; -1: no segment */
  bool indexed;   /* the index entry of the current result is written */
  uint64_t count; /* entries before that one */
  int64_t until;  /* CLOCK_MONOTONIC ns of the end of the segment; 0: no limit */
  int64_t hold;   /* the segment continues at least until then, because the next one could not begin */
  int64_t shift;  /* from CLOCK_MONOTONIC to the times in the index */
  struct segment_entry entry;
};

/* `drop`: the part of a result that a reader has yet to send after the slot was taken back. It is in the reader's room. */
struct rest {
  size_t at, end;
  struct pending *of;         /* NULL: that frame has its fate */
  const struct pending *left; /* during a takeover: the same in the previous process */
};

/* The expected outcome of a write to a reader's descriptor. */
enum reader_room {
  READER_FULL,     /* wait until its poll reports room */
  READER_WRITABLE, /* may succeed */
  READER_STARVED   /* the kernel had no memory; the next tick tries again */
};

/* State of the other end of a reader's connection. */
enum reader_end {
  READER_CONNECTED,
  READER_HALF_CLOSED, /* sends nothing more, which every poll reports */
  /* Half-closed, and sent urgent data that cannot be read. Every poll for urgent data reports it. */
  READER_URGENT
};

/* An attached descriptor. */
struct reader {
  struct message message; /* sink_attach() */
  struct sink *sink;
  struct sink_notice departure;
  int fd;
  _Atomic uint64_t emitted, missed;
  bool continues; /* attached in the previous process, and continues where it was */
  enum config_protocol protocol;
  char header[Y4M_HEADER]; /* sent before its first result, because it has the frame rate */
  size_t header_bytes;
  struct segment segment;      /* for files only; the fields below are for other kinds */
  struct reader *next, **link; /* all readers of the sink */
  uv_poll_t poll;
  int polled; /* events that are polled for */
  bool is_socket;
  bool listened_to; /* its input is read and discarded */
  bool leaving;     /* its poll handle is closing */
  enum reader_room state;
  enum reader_end end;
  size_t header_at; /* bytes of the header sent so far */
  uint64_t at;      /* index of the current result in the queue */
  size_t sent;      /* bytes of that result sent so far, with its prefix */
  uint64_t skipped; /* frames since its last result whose results it did not get; added to `dropped` of the next result */
  unsigned char native[NATIVE_RESULT_BYTES]; /* header of the next result, with that number */
  struct room *room;                         /* `drop`; while it is not attached: the room it brings or takes along */
  unsigned stalled;                          /* ticks without a byte sent while others needed its room */
  struct rest rest;
  struct pending *spare;        /* the struct pending that it contributes to the sink while it is attached */
  struct mark mark;             /* set while the number of bytes written may differ from this record */
  struct shared_reader *shared; /* it has shared memory: see leases.h; NULL: results are written to its descriptor */
  unsigned final_error;         /* ERROR code to send after it left; 0: none */
};

/* Slots that shared-memory readers hold, by slot index. */
struct leases {
  unsigned holders[GPU_MAX_SLOTS]; /* number of readers that hold the slot */
  unsigned count;                  /* slots with at least one holder */
  struct flow *flow;               /* flow of these slots */
  /* `drop`: results that left the queue before their readers were done; slot NULL: none. */
  struct result aside[GPU_MAX_SLOTS];
  uint64_t order[GPU_MAX_SLOTS]; /* their positions in the queue */
  /* `drop`: since the last tick the session ran out of other slots. */
  bool wanted;
};

/* Only for a sink to a file. */
struct file {
  struct reader *reader;  /* the file or the current segment; NULL: none yet */
  uv_fs_t request;        /* under way while sink_asked() says so */
  bool torn;              /* part of a result follows `position` */
  int64_t position;       /* offset of the next complete result; -1: unknown */
  size_t written;         /* bytes of the current result written so far */
  bool detaching;         /* the file is detached before the next result */
  int64_t every_ns, most; /* limits of a segment, in ns and bytes; 0: no limit */
  bool makes_room;        /* on a full disk, old segments are removed before results are lost */
  int64_t room_until;     /* until then the current result waits for that; 0: the disk was not full */
  struct sink_notice room, trouble;
  bool failed, reported; /* results are lost; the control loop knows */
  int error;             /* errno of the last result that was lost */
  char why[160];
  uint64_t lost;   /* results lost since the file could last be written; for SINK_RECOVERED */
  uint64_t missed; /* results lost since the current file was attached; for SINK_DETACHED */
};

/* `drop`: buffers for the rests of readers. */
struct rooms {
  struct room *free;
  unsigned count, readers; /* buffers that attached readers brought; readers that may need one */
  bool wanted;             /* since the last tick a reader found no free buffer */
  unsigned made, most;     /* counted by the control loop */
};

/* `reply`: called at the end of the one reader, in place of an event. */
struct reply {
  sink_gone *gone; /* NULL: not a `reply` sink */
  void *session;
};

struct sink {
  struct runner runner; /* must be first */
  const struct sink_operations *operations;
  struct lane *lane;
  struct mailbox *control;
  sink_listener *listener;
  void *context;
  bool block; /* lossless */
  bool stopping;
  size_t result_bytes; /* of a line of JSON: the maximum */
  struct frame_format format;
  bool keeps_look; /* results have the format of the frames, so their y4m parameters apply */
  enum config_protocol protocol;
  bool speaks_native;                             /* some reader may use the native protocol */
  struct line_shape *_Atomic shapes[FLOW_STAGES]; /* JSON: line shape of frames by the number of their stages */
  struct line_shape *made;                        /* every shape made so far, because a result may wait for long */
  char *lines;                                    /* JSON: a buffer for each slot; else NULL */
  /* The queue: results first to tail - 1, counted since the start. Each change is one store to `first` or `tail`. */
  struct result results[GPU_MAX_SLOTS];
  uint64_t first, tail;
  struct reader *readers;
  struct message stop_message;
  struct message continue_message;
  struct reader *continuing; /* readers to attach after a takeover, all at once */
  struct relay *relay;       /* NULL: the sink is on its session's lane */
  struct message discard_message, detach_message;
  _Atomic unsigned to_discard; /* fate for all results, plus 1; 0: no order is outstanding */
  struct sink_notice stopped_notice;
  uint64_t base; /* first result of this process */
  /* for sinks with readers */
  struct leases leases;
  int64_t spin_ns; /* ns to poll for completions that a shared-memory reader consumed, before the lane sleeps */
  struct pending *spares;
  struct rooms rooms;
  unsigned departing; /* readers whose handles are closing */
  struct reply reply;
  struct file file;
};

static inline unsigned sink_count(const struct sink *sink) { return (unsigned)(sink->tail - sink->first); }
static inline struct result *sink_result(struct sink *sink, uint64_t index) { return &sink->results[index % GPU_MAX_SLOTS]; }

/* True if the reader sends the rest of a result from its own buffer, so that it needs no result in the queue. */
static inline bool reader_has_rest(const struct reader *reader) { return reader->rest.at < reader->rest.end; }

/* The constant part of lines of JSON, with its own copy of the labels. */
struct line_shape {
  struct line_shape *next;
  struct json_shape shape;
  char *labels[];
};

/* -- bytes.c ----------------------------------------------------------------------------------------------------------------
 */

bool sink_make_lines(struct sink *sink, const struct sink_setup *setup, struct failure *failure);
void sink_free_lines(struct sink *sink);
void result_make_line(struct result *result);

static inline char *result_line(const struct result *result) {
  return result->sink->lines + result->slot->index * result->sink->result_bytes;
}

/* The bytes of a result, without its prefix. */
struct payload {
  const unsigned char *bytes;
  size_t count;
};

static inline struct payload result_payload(struct result *result) {
  if (!result->sink->lines) {
    return (struct payload){result->slot->output, result->sink->result_bytes};
  }
  if (result->line_bytes == 0) {
    result_make_line(result);
  }
  return (struct payload){(const unsigned char *)result_line(result), result->line_bytes};
}

/* -- results and readers -----------------------------------------------------------------------------------------------------
 */

/* The bytes that precede a result in this protocol. Their number depends only on the protocol. */
size_t result_prefix(const struct result *result, enum config_protocol protocol, const unsigned char **prefix);
/* The prefix for this reader. It misses no result between its position and this one. */
size_t reader_prefix(struct reader *reader, uint64_t at, const unsigned char **prefix);
/* The reader missed this whole result. */
void reader_miss(struct reader *reader, uint64_t at);
/* [no lane knows the reader] Allocates the buffer that the reader needs in the middle of a result, if it has none. */
bool reader_make_room(struct reader *reader);
void reader_drop_room(struct reader *reader);
/* Writes the reader's header for a stream that begins with this result; no header for NULL. */
void reader_set_header(struct reader *reader, const struct result *result);

/* The counters of a reader have one writer and are read by other threads. */
#define READER_COUNT(counter, by)                                                                                              \
  atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (by), memory_order_relaxed)

/* A reader left before it was done with the result, but may have seen it. Flags the result as possibly delivered before, like
 * the result of a frame that was sent again. Only for frames that the producer marked. */
void result_mark_again(struct result *result);
/* Sets the fate of the result's frame. Call once. */
void result_settle(struct result *result, enum fate fate, int64_t now);
/* Sets the fate of a frame without a slot. Does nothing if it has one. */
void pending_settle(struct pending *pending, enum fate fate, int64_t now);
/* Appends a slot in EMITTING to the queue. */
void sink_take_in(struct sink *sink, struct flow *flow, struct slot *slot);
/* [no lane runs, or on the sink's lane] Appends the slots that the session handed over and the sink has not taken yet. */
void sink_take_handed_over(struct sink *sink);
/* True if the queue has this slot. */
bool sink_has_slot(const struct sink *sink, const struct slot *slot);
/* Returns the slot of a result to its flow; no other function does. A frame without a fate gets this one. If it is the oldest
 * result, it leaves the queue. */
void result_release(struct sink *sink, struct result *result, enum fate fate, int64_t now);
/* Releases results from the front that no reader needs. Under `block` it stops at the first result that nobody took. */
void sink_release(struct sink *sink, int64_t now);
/* [sink's lane] Sets this fate for every result, and releases those that are not being read at this moment. */
void sink_discard_all(struct sink *sink, enum fate fate, int64_t now);

void sink_post(struct sink *sink, struct sink_notice *notice);
/* Returns false while the notice is still on its way and must not be changed. After true the caller must post it. */
static inline bool sink_may_post(struct sink_notice *notice) { return !atomic_exchange(&notice->posted, true); }
/* Leaves the lane and posts SINK_STOPPED. The sink does nothing there afterwards. */
void sink_stopped(struct sink *sink);

/* -- refusal.c: the system refused to write a result; errors are libuv's ------------------------------------------------ */

/* The segment reached the maximum file size: ends it, and the result goes into the next segment. Returns false if that cannot
 * help, because the segment is empty or no next one could begin. */
bool refusal_ends_segment(struct sink *sink, int error);
/* The disk is full: the result waits some seconds while old segments are removed. Each tick tries again. */
bool refusal_waits_for_room(struct sink *sink, int error);
/* Call after a result was lost. */
void refusal_begins(struct sink *sink, int error);
/* Call after a result was written. */
void refusal_ends(struct sink *sink);
/* A partly written result could not be cut off. The next result overwrites it, or the end of the sink tries again. EINVAL means
 * that this is no regular file, so there is nothing to cut. */
void refusal_leaves_torn(struct sink *sink, int error);
/* Reports to the control loop whether the file can be written, once for each change. If a notice is on its way, the tick
 * reports later. */
void refusal_report(struct sink *sink);

/* -- adopt.c: taking over from the previous process -------------------------------------------------------------------- */

/* The sink or reader at this address in the previous process; NULL: none, or not valid. Only the sink is checked. */
const struct sink *sink_left(const struct sink *address);
const struct reader *reader_left(const struct reader *address);
/* The result that that sink has (`held`) or had for the frame in this slot, which is EMITTING; else NULL. */
const struct result *sink_left_find(const struct sink *left, unsigned seat, const struct slot *slot, bool *held);
/* [no lane runs] Takes over the results of that sink. Their slots must be EMITTING; if one is not, its memory is lost and
 * nothing is taken. Returns false if the record is not valid. */
bool sink_adopt(struct sink *sink, const struct sink *left, sink_flow_lookup *flow, void *context);
/* [no lane runs] Drops all results, because their client is gone. */
void sink_abandon(struct sink *sink);
/* Makes a reader from the previous one with this descriptor. NULL: no memory, or (`cut`) its position is unknown. Then the
 * caller keeps the descriptor. */
struct reader *reader_adopt(struct sink *sink, const struct reader *left, int fd, sink_flow_lookup *lookup, void *context,
                            bool *cut);
/* Makes the file's reader from the previous one. Cuts off part of a result; `torn` gets the number of bytes. */
struct reader *reader_adopt_file(struct sink *sink, const struct reader *left, int fd, uint64_t *torn);
/* Takes over the leases of a shared-memory reader, after its control memory. Returns false if they are not valid. */
bool reader_adopt_leases(struct reader *reader, const struct reader *left);
/* Checks the position of a reader that was taken over. Call once the sessions have their memory. */
bool reader_position_is_valid(const struct reader *reader);

/* The kinds. */
extern const struct sink_operations sink_readers_operations; /* any number of readers, or the one of `reply` */
/* Writes at its own offsets, to a file that is not polled. */
extern const struct sink_operations sink_file_operations;

static inline bool sink_is_file(const struct sink *sink) { return sink->operations == &sink_file_operations; }

/* -- for the session ------------------------------------------------------------------------------------------- */

/* Makes the sink of a `reply` session. The session attaches and detaches its one reader, and `gone` reports the end of that
 * reader instead of an event. */
struct sink *sink_new_reply(const struct sink_setup *setup, sink_gone *gone, void *session, struct failure *failure);
/* Connects a sink on another lane to its session. Call before either lane uses the sink. */
void sink_join_handoff(struct sink *sink, struct relay *relay);
/* [session's lane] Takes over a slot in EMITTING. */
void sink_offer(struct sink *sink, struct flow *flow, struct slot *slot);
/* [lane] Returns true if the sink can do more at once. */
bool sink_turn(struct sink *sink, int64_t now);
/* `drop`: frees a slot that the session needs; slow readers lose out. Returns true if one is free now or soon. */
bool sink_reclaim(struct sink *sink, int64_t now);
/* [lane] `drop`: true if some reader has yet to get results or a rest. */
bool sink_is_sending(const struct sink *sink);
/* [lane] True if some reader holds results in shared memory that it may have consumed by now. */
bool sink_has_leases(const struct sink *sink);
/* [session's lane] Sets this fate for every offered result. With a relay the slots come back later. */
void sink_discard(struct sink *sink, enum fate fate, int64_t now);
/* [lane] `reply`: attaches its reader together with the producer; from another lane use sink_attach(). The sink closes the
 * reader's descriptor. */
void sink_attach_here(struct sink *sink, struct reader *reader);
/* [session's lane] `reply`: detaches its reader, now or soon. Call once for a reader. */
void sink_detach(struct sink *sink);
/* [session's lane] True if every order to discard or detach is carried out. The session gets a turn after each. */
bool sink_orders_done(const struct sink *sink);

#endif
