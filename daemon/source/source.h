/*
 * The room source/: bytes in, by socket, file or shared memory.
 *
 * A source reads the bytes of a producer straight to where receiving says. It stops reading when no slot is free. Nothing is
 * buffered in between, so the producer is slowed down.
 *
 * There are three kinds. A polled source (socket, pipe, FIFO, terminal) is read when ready, without blocking. A file is read
 * through uv_fs, one request at a time. With shared memory the frames are in place already. A source runs on its session's
 * lane.
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
  DESCRIPTOR_SHARED  /* a socket next to shared memory, which carries doorbells */
};

enum detach_reason {
  DETACH_END,         /* the producer ended between two frames */
  DETACH_TRUNCATED,   /* it ended in the middle of a frame, which is invalid */
  DETACH_MALFORMED,   /* it broke its protocol: `text` says how */
  DETACH_TIMEOUT,     /* the rest of a frame did not come in time */
  DETACH_ERROR,       /* read or write failed: `text` says why */
  DETACH_CLIENT_GONE, /* reply: it takes no more results */
  DETACH_STOPPED,     /* session_stop() */
  DETACH_CUT          /* the previous process was killed, and the position in the bytes is unknown */
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
  struct runner *runner;                      /* of the session; gets a turn when there is something to read */
  struct receive *receive;
  int fd;
  int64_t timeout_ns; /* for the rest of a frame that has begun; 0: no limit */
  double rate;        /* frames a second; 0: as they come */
  /* Speed of a recording, 1 as recorded. INFINITY: as fast as possible. 0: not a recording. */
  double pace_by;
  bool loop;
  enum detach_reason reason;
  char text[256];
  void (*closed)(struct source *source); /* called when source_close() is done; its receiver owns the descriptor */
  struct mark mark;                      /* set while the bytes read from the descriptor and the slots may differ */

  struct channel *channel; /* shared memory; NULL: frames come as bytes */

  /* polled */
  bool is_socket;
  bool readable; /* a read may succeed */
  uv_poll_t poll;

  /* a file */
  bool reading;
  int64_t read_began;
  int64_t offset;
  uint64_t rewound_at; /* sequence at the last return to the start */
  uv_fs_t request;
  uv_timer_t pace;
  int64_t due; /* when the next frame may begin */

  struct receive before; /* while `mark` is set: the state from which the file can be read again */
  int64_t offset_before;

  unsigned closing; /* handles whose close callback is outstanding */
};

/* If the configuration names a recording, reads its index. Blocks. Call after receive_init(). */
bool source_load_recording(struct source *source, const struct config_source *config, const char *pipeline,
                           struct failure *failure);
/* [any thread] The daemon ends: reading an index fails from now on. */
void source_stop_loading(void);
void source_drop_recording(struct source *source);
void source_open(struct source *source, struct lane *lane, int fd);
/* After source_adopt(): opens a descriptor of the previous process and continues at its position. */
void source_open_again(struct source *source, struct lane *lane, int fd);
/* Takes the position of a source of the previous process. Returns false if it is not valid. */
bool source_adopt(struct source *source, const struct source *left);
/* Reads what there is, within a budget. Returns true if more can be done at once. */
bool source_turn(struct source *source, int64_t now);
/* spin: tries to read in the next turn, whatever the poll says. */
void source_poke(struct source *source);
/* Ends the source if the rest of its frame is overdue. */
void source_tick(struct source *source, int64_t now);
/* True if the lane may sleep until the descriptor is readable. Asks a client with shared memory to ring. */
bool source_may_sleep(struct source *source);
/* True if there may be bytes for which no slot is free. */
bool source_waits(const struct source *source);
/* Asks the kernel whether there are unread bytes. Only for polled descriptors. */
bool source_has_unread(const struct source *source);
/* Returns the descriptor through `closed`, at once or after the request under way. */
void source_close(struct source *source);
/* Ends the source: sets the fate of a begun frame and requests a turn for the session. */
__attribute__((format(printf, 3, 4))) void source_end(struct source *source, enum detach_reason reason, const char *format,
                                                      ...);

#endif
