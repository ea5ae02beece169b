/*
 * The insides of a sink: what its files share, and what the session that offers results to it sees; the queue of results.
 *
 * A result is a slot in EMITTING, whose frame it reads there, and whether that has its fate. Results are released strictly in
 * order: the slot goes back to its flow when nobody needs its memory any more, and its frame gets its fate once, here or, when
 * a slow reader took the rest into its own buffer, when that reader is done. Sinks, readers and their rests lie in the image
 * (state/image.h). A result stays in its place of the queue until another one needs that, so that after a kill it is known what
 * became of it, whatever its session had heard.
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
  RESULT_OPEN,    /* its frame has none yet, and is in its slot */
  RESULT_MOVED    /* its frame has none yet, and is in a struct pending: see rest.c */
};

struct result {
  struct sink *sink;
  struct flow *flow;
  struct slot *slot; /* where its frame is; NULL once it is released */
  uint64_t sequence; /* which frame in which slot of which session it was, also when it is released */
  unsigned producer, index, seat;
  enum result_state state;
  enum fate fate;                            /* once it is settled */
  int64_t end;                               /* where it ends in the file, once it is there; 0: it is not */
  unsigned char native[NATIVE_RESULT_BYTES]; /* what stands before it for a native reader */
  size_t line_bytes;                         /* of its line of JSON; 0: it is not made */
};

/* A frame whose slot was taken back while readers still have its rest to send: the only one that is not in a slot. */
struct pending {
  struct flow *flow;
  struct frame frame;
  unsigned seat; /* of the flow */
  unsigned holders;
  struct pending *next;
};

/* [sink's lane] The reader of a `reply` sink leaves, or with `closed` its handle is closed now: each once. */
typedef void sink_gone(void *session, bool closed, const char *why);

struct sink_operations {
  /* A result has come into the queue, behind the others. */
  void (*offered)(struct sink *sink);
  /* Moves bytes; true: there may be more to do at once. */
  bool (*turn)(struct sink *sink, int64_t now);
  /* Ends for good, at once or later: sink_stopped() when it is done. */
  void (*stop)(struct sink *sink);
  void (*attach)(struct sink *sink, struct reader *reader);
  /* `reply` only: lets go of its reader. */
  void (*detach)(struct sink *sink);
  /* `drop` only: frees the oldest result's slot now, at the expense of its readers. False: nothing to free. */
  bool (*reclaim)(struct sink *sink, int64_t now);
  /* Lets go of every result but one that is being written. Returns the first result that may get the fate now. */
  uint64_t (*discard)(struct sink *sink, enum fate fate, int64_t now);
};

/* An event on its way to the control loop; embedded in the sink or reader that it is about, so that none is allocated. */
struct sink_notice {
  struct message message;
  atomic_bool posted;
  struct sink_event event;
};

/* Room for the rest of a result: see rest.c. */
struct room {
  struct room *next;
  unsigned char bytes[];
};

/* What a reader of a file has more: it is one segment, or the whole file. */
struct segment {
  int index;      /* its descriptor; -1: the file is no segment */
  bool indexed;   /* the entry of the result under way is there */
  uint64_t count; /* entries before it */
  int64_t until;  /* when the segment is over; 0: never */
  int64_t hold;   /* until when it is not over whatever it has: the next one could not begin */
  int64_t shift;  /* from CLOCK_MONOTONIC to the times in the index */
  struct segment_entry entry;
};

/* `drop`: what a reader has yet to send of a result whose slot was needed, in the room that it had before it began with it. */
struct rest {
  size_t at, end;
  struct pending *of;         /* NULL: that frame has its fate */
  const struct pending *left; /* the same in the process before, while readers are adopted */
};

/* Whether a write to a reader's descriptor may succeed, as far as is known. */
enum reader_room {
  READER_FULL,     /* not before its poll says so */
  READER_WRITABLE, /* yes */
  READER_STARVED   /* the kernel had no memory for its bytes: the next tick tries again */
};

/* What is known of the other end of a reader's connection. */
enum reader_end {
  READER_CONNECTED,
  READER_HALF_CLOSED, /* it will send nothing more, and every poll reports that */
  READER_URGENT       /* it also sent urgent data that cannot be taken, which every poll for that reports */
};

/* An attached descriptor. */
struct reader {
  struct message message; /* sink_attach() */
  struct sink *sink;
  struct sink_notice departure;
  int fd;
  _Atomic uint64_t emitted, missed;
  bool continues; /* it was a reader of the process before this one, and is where it was */
  enum config_protocol protocol;
  char header[Y4M_HEADER]; /* before its first result, whose rate it says */
  size_t header_bytes;
  struct segment segment;      /* of a file alone; all below is of every other kind */
  struct reader *next, **link; /* all readers of the sink */
  uv_poll_t poll;
  int polled; /* events that are polled for */
  bool is_socket;
  bool listened_to; /* what it sends is read, and thrown away */
  bool leaving;     /* its poll handle is closing */
  enum reader_room state;
  enum reader_end end;
  size_t header_at; /* bytes of the header that were sent */
  uint64_t at;      /* the result that the reader is on */
  size_t sent;      /* bytes of that result, prefix included */
  uint64_t skipped; /* frames that it did not get the results of, since the last that it did: for `dropped` of the next */
  unsigned char native[NATIVE_RESULT_BYTES]; /* what stands before that one, with them */
  struct room *room;                         /* `drop`; not attached: what it brings to the sink, or takes along */
  unsigned stalled;                          /* ticks since it took a byte, in which room was wanted */
  struct rest rest;
  struct pending *spare;        /* what this reader lends to the sink while it is attached */
  struct mark mark;             /* set while nobody could say how much was written, or what of that stands here */
  struct shared_reader *shared; /* it has shared memory: see loans.h; NULL: results go through its descriptor */
  unsigned final_error;         /* the ERROR that it is still to be told when it has left; 0: none */
};

/* Slots that are lent to readers with shared memory, by index. */
struct leases {
  unsigned holders[GPU_MAX_SLOTS];    /* readers that have the slot */
  unsigned count;                     /* slots that somebody has */
  struct flow *flow;                  /* whose they are */
  struct result aside[GPU_MAX_SLOTS]; /* `drop`: results that left the queue before their readers were done; slot NULL: none */
  uint64_t order[GPU_MAX_SLOTS];      /* and their places in the queue */
  bool wanted;                        /* `drop`: the session has had no other slots left since the last tick */
};

/* What only a sink to a file has. */
struct file {
  struct reader *reader;  /* the file, or the segment under way; NULL: none yet */
  uv_fs_t request;        /* under way while sink_asked() says so */
  bool torn;              /* part of a result stands behind `position` */
  int64_t position;       /* where the next whole result begins; -1: not known */
  size_t written;         /* bytes of the result under way */
  bool letting_go;        /* the file is to be given back between two results */
  int64_t every_ns, most; /* of a segment: time and bytes; 0: no limit */
  bool makes_room;        /* a full disk loses old segments before it loses results, */
  int64_t room_until;     /* for which the one under way waits until then; 0: the disk was not full */
  struct sink_notice room, trouble;
  bool failed, reported; /* that results are lost, and whether the control loop knows */
  int error;             /* of the last result that was lost */
  char why[160];
  uint64_t lost;   /* results since the file could last be written: what SINK_RECOVERED says, */
  uint64_t missed; /* and those since the sink got the file that it has: what SINK_DETACHED says */
};

/* `drop`: pieces of room for the rests of readers. */
struct rooms {
  struct room *free;
  unsigned count, readers; /* of so many pieces that attached readers brought, and so many readers who may need one */
  bool wanted;             /* a reader found no room since the last tick */
  unsigned made, most;     /* control loop */
};

/* `reply`: whom the end of the one reader is told, in place of an event. */
struct reply {
  sink_gone *gone; /* NULL: it is another kind */
  void *session;
};

struct sink {
  struct runner runner; /* first */
  const struct sink_operations *operations;
  struct lane *lane;
  struct mailbox *control;
  sink_listener *listener;
  void *context;
  bool block; /* lossless */
  bool stopping;
  size_t result_bytes; /* of a line of JSON: at most */
  struct frame_format format;
  bool keeps_look; /* results have the format of frames: what a y4m header says of those holds for them */
  enum config_protocol protocol;
  bool speaks_native;                             /* some reader may */
  struct line_shape *_Atomic shapes[FLOW_STAGES]; /* JSON: of frames that went through the stages with that number */
  struct line_shape *made;                        /* all that there were: a result may wait for long */
  char *lines;                                    /* JSON: room for one of each slot; else NULL */
  /* The queue: results first to tail - 1, counted since the start; a change is one store to one of them. */
  struct result results[GPU_MAX_SLOTS];
  uint64_t first, tail;
  struct reader *readers;
  struct message stop_message;
  struct message continue_message;
  struct reader *continuing; /* until they are attached, all at once */
  struct relay *relay;       /* NULL: it lives on its session's lane */
  struct message discard_message, detach_message;
  _Atomic unsigned to_discard; /* the fate of all results, plus 1; 0: no order is on its way */
  struct sink_notice stopped_notice;
  uint64_t base; /* the first result of this process */
  /* with readers */
  struct leases leases;
  int64_t spin_ns; /* how long to look for what a reader with shared memory is done with before its lane sleeps */
  struct pending *spares;
  struct rooms rooms;
  unsigned departing; /* readers whose handles are closing */
  struct reply reply;
  struct file file;
};

static inline unsigned sink_count(const struct sink *sink) { return (unsigned)(sink->tail - sink->first); }
static inline struct result *sink_result(struct sink *sink, uint64_t index) { return &sink->results[index % GPU_MAX_SLOTS]; }

/* The reader sends the rest of a result from its own buffer, and is on none in the queue. */
static inline bool reader_has_rest(const struct reader *reader) { return reader->rest.at < reader->rest.end; }

/* What lines of JSON have in common, with labels of their own. */
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

/* The bytes of a result as readers get them, behind what stands before it. */
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

/* -- results and readers ----------------------------------------------------------------------------------------------------
 */

/* What stands before a result for readers of this protocol; how long it is depends on the protocol alone. */
size_t result_prefix(const struct result *result, enum config_protocol protocol, const unsigned char **prefix);
/* The same for this reader, which misses no result between where it is and this one. */
size_t reader_prefix(struct reader *reader, uint64_t at, const unsigned char **prefix);
/* The reader missed this result, whole. */
void reader_miss(struct reader *reader, uint64_t at);
/* [no lane knows the reader] Makes the room that the reader needs in the middle of a result, if it has none. */
bool reader_make_room(struct reader *reader);
void reader_drop_room(struct reader *reader);
/* Writes the reader's header for a stream that begins with this result; none at all for NULL. */
void reader_set_header(struct reader *reader, const struct result *result);

/* A reader's counts have one writer and are read by other threads. */
#define READER_COUNT(counter, by)                                                                                              \
  atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (by), memory_order_relaxed)

/* A reader that left before it was done with the result may have seen it: from now on the result says of itself that it may
 * have been seen, as that of a frame that was sent again does. Only a producer that gave the frame a mark makes anything of
 * that. */
void result_mark_again(struct result *result);
/* The frame of the result has its fate: once. */
void result_settle(struct result *result, enum fate fate, int64_t now);
/* The same for a frame that has no slot any more; nothing if it has its fate. */
void pending_settle(struct pending *pending, enum fate fate, int64_t now);
/* The slot in EMITTING is behind the other results now. */
void sink_take_in(struct sink *sink, struct flow *flow, struct slot *slot);
/* [no lane runs, or on it] Takes in what was handed over and not taken yet. */
void sink_take_handed_over(struct sink *sink);
/* Whether a result is in that slot. */
bool sink_has_slot(const struct sink *sink, const struct slot *slot);
/* The only function that frees the slot of a result: the slot goes back to its flow. A frame without a fate gets this one. The
 * oldest result leaves the queue. */
void result_release(struct sink *sink, struct result *result, enum fate fate, int64_t now);
/* Releases results from the front that no reader is on. Under `block` it stops at the first that nobody took. */
void sink_release(struct sink *sink, int64_t now);
/* [sink's lane] Gives every result this fate, and releases what is not being read at this moment. */
void sink_give_up(struct sink *sink, enum fate fate, int64_t now);

void sink_post(struct sink *sink, struct sink_notice *notice);
/* False: the notice is still on its way since last time, and must not be changed. True: the caller posts it. */
static inline bool sink_may_post(struct sink_notice *notice) { return !atomic_exchange(&notice->posted, true); }
/* Leaves the lane and posts SINK_STOPPED; the last thing that a sink does there. */
void sink_stopped(struct sink *sink);

/* -- refusal.c: when the system refuses to write a result to the file; errors are those of libuv ------------------------ */

/* A segment that is as large as a file may be ends like a full one, and its next result goes into the next segment. False: the
 * result does not fit into an empty segment either, or no segment could begin. */
bool refusal_ends_segment(struct sink *sink, int error);
/* A result waits for some seconds while old segments make room on a full disk: it is tried again with each tick. */
bool refusal_waits_for_room(struct sink *sink, int error);
/* A result was lost; */
void refusal_begins(struct sink *sink, int error);
/* one was written. */
void refusal_ends(struct sink *sink);
/* A torn result could not be cut off: the next whole result is written over it, or the end of the sink tries again. What is no
 * regular file (EINVAL) has no end to cut. */
void refusal_leaves_torn(struct sink *sink, int error);
/* Tells the control loop whether the file can be written, once for each change. While one notice is on its way, the next waits
 * for the tick. */
void refusal_tell(struct sink *sink);

/* -- adopt.c: how the next process goes on with them ------------------------------------------------------------------- */

/* The sink that lay at this address in the process before; NULL: there is none, or it makes no sense. A reader may be any. */
const struct sink *sink_left(const struct sink *address);
const struct reader *reader_left(const struct reader *address);
/* What that sink knows of the frame in this slot of a session, which is EMITTING: NULL, or a result that it has (`held`) or
 * had. */
const struct result *sink_left_find(const struct sink *left, unsigned seat, const struct slot *slot, bool *held);
/* [no lane runs] Takes what that sink had; slots are EMITTING by now where it had them. Otherwise their memory is not to be
 * had, and nothing is taken. False: it makes no sense. */
bool sink_adopt(struct sink *sink, const struct sink *left, sink_flow_lookup *flow, void *context);
/* [no lane runs] Forgets all results: their client has gone with the process before. */
void sink_abandon(struct sink *sink);
/* Makes a reader of the one that was left, with this descriptor. NULL: there is no memory, or (`cut`) nobody knows how far it
 * was; the descriptor stays the caller's. */
struct reader *reader_adopt(struct sink *sink, const struct reader *left, int fd, sink_flow_lookup *lookup, void *context,
                            bool *cut);
/* The same for the file, where a part of a result is cut off: `torn` gets its bytes. */
struct reader *reader_adopt_file(struct sink *sink, const struct reader *left, int fd, uint64_t *torn);
/* What is lent to a reader with shared memory, which it has by now. False: it makes no sense. */
bool reader_adopt_leases(struct reader *reader, const struct reader *left);
/* Whether a reader that was taken is within what there is for it; once the sessions have their memory. */
bool reader_is_in_place(const struct reader *reader);

/* The kinds. */
extern const struct sink_operations sink_readers_operations; /* any number of readers, or the one of `reply` */
extern const struct sink_operations sink_file_operations; /* written at positions of our own, by a reader that is not polled */

static inline bool sink_is_file(const struct sink *sink) { return sink->operations == &sink_file_operations; }

/* -- for the session ------------------------------------------------------------------------------------------- */

/* The sink of a `reply` session: its one reader is attached and detached by the session itself, which is told of its
 * loss by `gone` instead of an event. */
struct sink *sink_new_reply(const struct sink_setup *setup, sink_gone *gone, void *session, struct failure *failure);
/* A sink that lives on another lane than its session: before either lane knows of it. */
void sink_join_handoff(struct sink *sink, struct relay *relay);
/* [session's lane] Takes over a slot in EMITTING. */
void sink_offer(struct sink *sink, struct flow *flow, struct slot *slot);
/* [lane] True: the sink may do more at once. */
bool sink_turn(struct sink *sink, int64_t now);
/* `drop`: a slot is wanted, at the expense of slow readers. True: one is free, or will be. */
bool sink_reclaim(struct sink *sink, int64_t now);
/* [lane] `drop`: some reader has yet to take results, or the rest of one. */
bool sink_is_sending(const struct sink *sink);
/* [lane] Some reader has results in shared memory that it may be done with by now. */
bool sink_has_leases(const struct sink *sink);
/* [session's lane] Gives every result that was offered this fate; with a relay the slots come back later. */
void sink_discard(struct sink *sink, enum fate fate, int64_t now);
/* [lane] `reply`: its reader comes and goes with the producer, here or by sink_attach() from another lane. The reader's
 * descriptor is closed by the sink. */
void sink_attach_here(struct sink *sink, struct reader *reader);
/* [session's lane] `reply`: lets go of its reader, now or soon. Once for a reader. */
void sink_detach(struct sink *sink);
/* [session's lane] Whether every order to discard or detach is carried out; when one is, the session gets a turn. */
bool sink_orders_done(const struct sink *sink);

#endif
