/*
 * Shared definitions of the library: the client, and the interface of a transport.
 *
 * A client is `broken` once it cannot take part in the protocol any more; `problem` keeps the reason. The caller can still
 * receive earlier results. Data of the daemon comes from another process, so it is checked before use.
 *
 * A client that may reconnect `keeps` each submitted frame until its fate is known. While it is `paused` there is no
 * connection. The caller acquires, submits and receives as before, and reconnect.c sends the kept frames to the next
 * connection.
 */
#ifndef FRAMED_TOOLS_CLIENT_CLIENT_H
#define FRAMED_TOOLS_CLIENT_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "daemon/wire/native_wire.h"
#include "tools/client/framed.h"

#define NS_PER_S INT64_C(1000000000)

enum {
  WELCOME_BYTES = sizeof(struct native_header) + sizeof(struct native_welcome),
  FRAME_BYTES = sizeof(struct native_header) + sizeof(struct native_frame),
  RESULT_BYTES = sizeof(struct native_header) + sizeof(struct native_result),
  ACK_BYTES = sizeof(struct native_header) + sizeof(struct native_ack),
  ERROR_BYTES = sizeof(struct native_header) + sizeof(struct native_error),
  MESSAGE_BYTES = ERROR_BYTES + NATIVE_ERROR, /* the longest message without its payload */
  MOST_PLACES = FRAMED_MAX_SLOTS + 2          /* stream: one is being filled and one sent while all others are kept */
};

/* The descriptors of a WELCOME, in this order. A consumer gets no input. */
enum { SHARED_INPUT, SHARED_OUTPUT, SHARED_CONTROL, SHARED_DESCRIPTORS };

enum place { PLACE_FREE, PLACE_HELD /* held by the caller */, PLACE_AWAY /* at the daemon, or being sent */, PLACE_READY };

struct region {
  unsigned char *base; /* NULL: not mapped */
  size_t bytes, stride;
};

/* An incoming message, up to its payload. */
struct message {
  unsigned char bytes[MESSAGE_BYTES];
  size_t count;
};

/*
 * The memory of frames and results, and the state of each place. The stream transport has one lot for the client's life. With
 * shared memory each connection has its own, and older lots remain while the caller holds a place of theirs.
 */
struct lot {
  struct region inputs, outputs, control;
  unsigned places;
  enum place frames[MOST_PLACES];
  unsigned number; /* counts the client's lots */
  /* shared memory */
  struct native_control *words;
  uint32_t submitted, seen, taken;  /* cursors: frames, completions seen, completions released */
  unsigned char slots[NATIVE_RING]; /* the slot of each completion between `taken` and `seen` */
  bool done[NATIVE_RING];           /* released by the caller */
  bool lost;                        /* its connection is closed */
  uint32_t last;                    /* of a lost lot: the cursor after its last completion */
  struct lot *older;
};

struct stream {
  struct native_frame stamps[MOST_PLACES];
  unsigned char queue[MOST_PLACES]; /* frames in order: first the kept ones, then those to be sent */
  unsigned first, queued, kept;
  size_t sent;       /* bytes of the first unsent frame that are sent, including its header */
  uint64_t released; /* frames of this connection that are no longer kept */
  uint64_t answered; /* frames whose fate a result reported */
  uint64_t acked;    /* frames whose fate an ACK reported */
  bool cannot_send, shut, ended;
  enum place results[FRAMED_MAX_SLOTS];
  unsigned result_places;
  struct native_result heads[FRAMED_MAX_SLOTS];
  unsigned char ready[FRAMED_MAX_SLOTS]; /* results for the caller to receive */
  unsigned first_ready, count_ready;
  int filling; /* the place of the result that is being read, or -1 */
  size_t filled;
};

/* A submitted frame whose fate is unknown or must not count. */
struct kept {
  struct lot *lot; /* the memory of the frame */
  unsigned index;
  struct native_frame stamp;
  bool sent;   /* on this connection */
  bool parked; /* returned undone by a daemon that stops */
};

struct shared {
  struct kept kept[FRAMED_MAX_SLOTS]; /* in order of submission; only if the client keeps frames */
  unsigned count;
  int64_t read_at; /* when the connection was last read */
  bool ended;
};

/* A connection that is being established, up to its WELCOME. */
enum { MOST_DESCRIPTORS = 8 };
struct greeting {
  struct native_welcome welcome;
  size_t count; /* bytes of it that have been received */
  int descriptors[MOST_DESCRIPTORS];
  unsigned descriptor_count;
  bool cut; /* some descriptors were discarded */
};

struct reconnect {
  int64_t for_ns;            /* 0: the client does not reconnect */
  uint64_t token;            /* identifies this client in marks */
  uint64_t numbered;         /* frames submitted so far */
  int descriptor;            /* for the caller's event loop: an epoll of connection and timer, or -1 */
  int timer;                 /* fires at the time of the next attempt */
  short watched;             /* events of the connection that the epoll watches; -1: not watched */
  int64_t until, next, wait; /* paused: when it gives up, when it tries again, and the wait after that */
  int64_t since;             /* when the last connection was established */
  struct framed_error cause;
  bool quietly;      /* giving up is the normal end of a sink */
  bool over;         /* it will not reconnect */
  bool timed;        /* the timer is running, or has fired */
  uint16_t *numbers; /* a consumer's: for each client, the number of its last result plus one */
};

struct transport;

struct framed {
  int fd; /* -1: not connected */
  struct sockaddr_un address;
  struct framed_info info;
  struct framed_error problem;
  bool broken, finished, keeps, paused, fates;
  int64_t spin_ns, timeout_ns;
  const struct transport *transport; /* NULL before the first connection */
  struct lot *lot;                   /* the newest one */
  struct message message;
  struct greeting greeting;
  struct reconnect reconnect;
  union {
    struct stream stream;
    struct shared shared;
  };
};

struct transport {
  /* Sets up what lasts for the client's life. False with the client broken. */
  bool (*open)(struct framed *client);
  unsigned (*look)(struct framed *client);               /* does all work that needs no waiting; returns the pending events */
  unsigned (*events)(struct framed *client);             /* the pending events, without any work */
  short (*arm)(struct framed *client);                   /* before a sleep: returns the poll events that must end it */
  void (*wake)(struct framed *client, short conditions); /* after a sleep */
  bool (*has_room)(const struct framed *client);
  void (*submit)(struct framed *client, struct lot *lot, unsigned index, const struct native_frame *stamp);
  bool (*receive)(struct framed *client, struct framed_result *result);
  void (*release)(struct framed *client, unsigned place);
  void (*finish)(struct framed *client);
  /* The connection is lost. Frames without a known fate will be sent again. */
  void (*lose)(struct framed *client);
  /* The daemon will not return, which ends a sink normally. */
  void (*end)(struct framed *client);
  /* A new connection exists, and its greeting has the memory. False with the client broken. */
  bool (*resume)(struct framed *client);
};

extern const struct transport stream_transport, shared_transport;

/* -- greeting.c ------------------------------------------------------------------------------------------------------ */

enum step { STEP_WAIT, STEP_DONE, STEP_FAILED /* the client is broken */ };

/* Connects and sends HELLO. With deadline 0 it does not wait, and fails where it would have to. */
bool greeting_begin(struct framed *client, int64_t deadline);
/* Reads and checks the available part of the WELCOME. */
enum step greeting_step(struct framed *client);
/* Closes the descriptors, and clears the greeting. */
void greeting_end(struct framed *client);
/* Enlarges the send buffer of a new connection for large frames. */
void connection_tune(const struct framed *client);

/* -- reconnect.c ----------------------------------------------------------------------------------------------------- */

bool reconnect_open(struct framed *client, int64_t for_ns);
void reconnect_close(struct framed *client);
/* True if the client is broken only by a lost connection, which the next client_look() re-establishes. */
bool reconnect_may_help(const struct framed *client);
/* Does all work that needs no waiting, connected or not. Returns the pending events. */
unsigned client_look(struct framed *client);
/* Limits a sleep of `left_ns` (negative: no limit) to the time of the next attempt. */
int64_t reconnect_patience(const struct framed *client, int64_t left_ns);
/*
 * For the caller's event loop: the descriptor becomes readable at these events of the connection, or at the next attempt.
 * Returns the events to poll for.
 */
short reconnect_watch(struct framed *client, short conditions);
/* The mark of the next frame, by which consumers recognise its result. */
uint32_t reconnect_mark(struct framed *client);
/* True if a consumer already received the result with these flags. */
bool reconnect_knows(const struct framed *client, uint32_t flags);
/* Notes that a consumer received a result with these flags. False if it already had it. */
bool reconnect_is_new(struct framed *client, uint32_t flags);

/* -- memory.c -------------------------------------------------------------------------------------------------------- */

struct lot *lot_new(struct framed *client, unsigned places); /* NULL with the client broken */
/* Frees the lot and all older ones. Returns NULL. */
struct lot *lot_free(struct lot *lot);
bool region_make(struct region *region, unsigned count, size_t bytes);
/* Maps a file of the daemon. False with errno; EPROTO if it could shrink or is too small. */
bool region_map(struct region *region, int fd, unsigned count, size_t bytes, size_t stride, bool writable);
/* The index of the place that begins at `pointer`, or -1. */
int region_place(const struct region *region, unsigned count, const void *pointer);

/* -- problem.c ------------------------------------------------------------------------------------------------------- */

/* Breaks the client unless it is already broken. `system` is an errno or 0. Returns false. */
bool client_break(struct framed *client, enum framed_code code, int system, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports a mistake of the caller. Returns FRAMED_FAILED. */
int client_misuse(struct framed *client, const char *what);
/* Breaks the client with the reason of a complete ERROR message. */
bool client_break_by_error(struct framed *client, const struct message *message);

/*
 * The bytes that the current message needs to be understood, as far as known, without a RESULT's payload. 0: this client may
 * not get such a message, and it is broken.
 */
size_t message_wanted(struct framed *client);

/* The type of the current message, whose header is complete. */
enum native_type message_type(const struct framed *client);

int64_t framed_clock(void);

/* `now` plus `ns`. A sum beyond the clock's range becomes its last value. */
int64_t framed_after(int64_t now, int64_t ns);

#endif
