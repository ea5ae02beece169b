/*
 * The room source/: bytes in, by socket, file or shared memory.
 *
 * A source is where a producer's bytes come from. It reads straight to where receiving says, and stops reading when
 * no slot is free: the producer feels that, and nothing is buffered in between.
 *
 * Three kinds: one that is polled (socket, pipe, FIFO, terminal) is read when it is ready, without blocking; a file through
 * uv_fs, one request at a time; and shared memory, whose frames are there already. Lives on its session's lane.
 */
#ifndef FRAMED_SOURCE_SOURCE_H
#define FRAMED_SOURCE_SOURCE_H

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/base/lane.h"
#include "daemon/frame/receive.h"
#include "daemon/state/image.h"

enum descriptor_kind {
  DESCRIPTOR_POLLED, /* socket, pipe, FIFO, terminal: read and written when ready */
  DESCRIPTOR_FILE,   /* regular file or block device: through uv_fs, one request at a time */
  DESCRIPTOR_SHARED  /* a socket beside shared memory: rings when there is something there */
};

enum detach_reason {
  DETACH_END,         /* the producer ended between two frames */
  DETACH_TRUNCATED,   /* it ended within a frame: that one is invalid */
  DETACH_MALFORMED,   /* it broke its protocol: `text` says how */
  DETACH_TIMEOUT,     /* the rest of a frame did not come in time */
  DETACH_ERROR,       /* read or write failed: `text` says why */
  DETACH_CLIENT_GONE, /* reply: it no longer takes its results */
  DETACH_STOPPED,     /* session_stop() */
  DETACH_CUT          /* the process before was killed, and nobody knows how much of it was read */
};

enum source_state {
  SOURCE_NONE, /* no descriptor */
  SOURCE_OPEN,
  SOURCE_ENDED, /* nothing more comes; `reason` and `text` say why */
  SOURCE_CLOSING
};

struct source {
  enum source_state state;
  enum descriptor_kind kind;
  const struct source_operations *operations; /* of that kind */
  struct runner *runner;                      /* of the session: asked for a turn when there is something to read */
  struct receive *receive;
  int fd;
  int64_t timeout_ns; /* for the rest of a frame that has begun; 0: none */
  double rate;        /* frames a second; 0: as they come */
  double pace_by;     /* of a recording: times as fast as it came; INFINITY: as fast as it goes; 0: it is none */
  bool loop;
  enum detach_reason reason;
  char text[256];
  void (*closed)(struct source *source); /* source_close() is done; the descriptor is the receiver's */
  struct mark mark; /* set while nobody could say how much of its descriptor was read, and what of that is in slots */

  struct channel *channel; /* frames come in shared memory; NULL: as bytes */

  /* polled */
  bool is_socket;
  bool readable; /* as far as is known */
  uv_poll_t poll;

  /* a file */
  bool reading;
  int64_t read_began;
  int64_t offset;
  uint64_t rewound_at; /* sequence at the last return to the beginning */
  uv_fs_t request;
  uv_timer_t pace;
  int64_t due; /* when the next frame may begin */

  struct receive before; /* while `mark` is set: a file can be read again from where this was */
  int64_t offset_before;

  unsigned closing; /* handles whose close callback is to come */
};

/* Where the configuration names a recording, reads its index; blocks. After the receiving is set up. */
bool source_load_recording(struct source *source, const struct config_source *config, const char *pipeline,
                           struct failure *failure);
/* The daemon ends: an index that is being read, or will be, fails. Any thread. */
void source_stop_loading(void);
void source_drop_recording(struct source *source);
void source_open(struct source *source, struct lane *lane, int fd);
/* Opens a descriptor that a process before this one read, and goes on where that was: after source_adopt(). */
void source_open_again(struct source *source, struct lane *lane, int fd);
/* Takes where the source of a process before this one was. False: it makes no sense. */
bool source_adopt(struct source *source, const struct source *left);
/* Reads what there is, within a budget; true: there may be more to do at once. */
bool source_turn(struct source *source, int64_t now);
/* spin: try to read in the next turn, whatever the poll says. */
void source_poke(struct source *source);
/* Ends the source if the frame that has begun is overdue. */
void source_tick(struct source *source, int64_t now);
/* Whether the lane may go without a turn until the descriptor is ready; a client with shared memory is told to ring. */
bool source_may_sleep(struct source *source);
/* Whether there may be bytes that no slot is free for: the last read may have taken all. */
bool source_waits(const struct source *source);
/* Whether there are bytes that were not read; of descriptors that are polled only. Asks the kernel. */
bool source_has_unread(const struct source *source);
/* Gives the descriptor back through `closed`, at once or when the request under way is done. */
void source_close(struct source *source);
/* Ends it: the frame that had begun gets its fate, and the session is asked for a turn. */
__attribute__((format(printf, 3, 4))) void source_end(struct source *source, enum detach_reason reason, const char *format,
                                                      ...);

#endif
