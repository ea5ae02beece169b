/*
 * What the parts of the library share: the client itself, and what a transport does for it.
 *
 * A client is `broken` from the moment at which it can take part in the protocol no more; `problem` then says why and stays.
 * Results that came before are still given out. What comes from the daemon is checked before it is used, as it comes from
 * another process.
 *
 * A client that may connect again `keeps` what it submitted until it knows its fate. While it is `paused` there is no
 * connection: the caller acquires, submits and receives as ever, and what is kept is sent when there is one (reconnect.c).
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
  MESSAGE_BYTES = ERROR_BYTES + NATIVE_ERROR, /* the longest one that is not a payload */
  MOST_PLACES = FRAMED_MAX_SLOTS + 2          /* stream: one fills and one is on its way while all others are kept */
};

/* What comes with a WELCOME, in this order; a consumer gets no input. */
enum { SHARED_INPUT, SHARED_OUTPUT, SHARED_CONTROL, SHARED_DESCRIPTORS };

enum place { PLACE_FREE, PLACE_HELD /* by the caller */, PLACE_AWAY /* at the daemon, or on its way */, PLACE_READY };

struct region {
  unsigned char *base; /* NULL: none */
  size_t bytes, stride;
};

/* A message on its way in, up to its payload. */
struct message {
  unsigned char bytes[MESSAGE_BYTES];
  size_t count;
};

/*
 * The memory of frames and results, and who has which place of it. With the stream transport there is one for the client's
 * life. With the shared one each connection has its own, and the older ones stay while the caller holds something of them.
 */
struct lot {
  struct region inputs, outputs, control;
  unsigned places;
  enum place frames[MOST_PLACES];
  unsigned number; /* counts the lots of the client */
  /* shared */
  struct native_control *words;
  uint32_t submitted, seen, taken;  /* cursors: frames, completions looked at, completions done with */
  unsigned char slots[NATIVE_RING]; /* of each completion between `taken` and `seen` */
  bool done[NATIVE_RING];           /* the caller is done with it */
  bool lost;                        /* its connection is gone, */
  uint32_t last;                    /* and this is the cursor behind its last completion */
  struct lot *older;
};

struct stream {
  struct native_frame stamps[MOST_PLACES];
  unsigned char queue[MOST_PLACES]; /* frames in order: those that are kept, then those to be sent */
  unsigned first, queued, kept;
  size_t sent;       /* bytes of the first one to be sent, with what stands before it */
  uint64_t released; /* frames of this connection that were kept and are not any more */
  uint64_t answered; /* those of which a result told, */
  uint64_t told;     /* or an ACK */
  bool cannot_send, shut, ended;
  enum place results[FRAMED_MAX_SLOTS];
  unsigned result_places;
  struct native_result heads[FRAMED_MAX_SLOTS];
  unsigned char ready[FRAMED_MAX_SLOTS]; /* results to be received */
  unsigned first_ready, count_ready;
  int filling; /* the place that a result is being read to, or -1 */
  size_t filled;
};

/* A frame that was submitted and has no fate that counts. */
struct kept {
  struct lot *lot; /* where it lies */
  unsigned index;
  struct native_frame stamp;
  bool sent;   /* on this connection */
  bool parked; /* the daemon, which ends, gave it back undone */
};

struct shared {
  struct kept kept[FRAMED_MAX_SLOTS]; /* in order; if the client keeps any */
  unsigned count;
  int64_t heard; /* when the connection was last looked at */
  bool ended;
};

/* A connection that is being made, up to its WELCOME. */
enum { MOST_DESCRIPTORS = 8 };
struct greeting {
  struct native_welcome welcome;
  size_t count; /* bytes of it that have come */
  int descriptors[MOST_DESCRIPTORS];
  unsigned descriptor_count;
  bool cut; /* more came than were taken */
};

struct reconnect {
  int64_t for_ns;            /* 0: the client does not connect again */
  uint64_t token;            /* what it calls itself */
  uint64_t numbered;         /* frames that it submitted in its life */
  int descriptor;            /* for loops of the caller's own: an epoll of the connection and of the timer, or -1 */
  int timer;                 /* which ends a wait for the next try */
  short watched;             /* conditions of the connection, if the epoll has it; else -1 */
  int64_t until, next, wait; /* paused: when it gives up, tries again, and how long it waits after that */
  int64_t since;             /* when the last connection was made */
  struct framed_error cause;
  bool quietly;      /* giving up is the end of a sink and no problem */
  bool over;         /* it does not connect again */
  bool timed;        /* the timer runs, or has run */
  uint16_t *numbers; /* a consumer's: the number of the last result of each client, plus one */
};

struct transport;

struct framed {
  int fd; /* -1: none */
  struct sockaddr_un address;
  struct framed_info info;
  struct framed_error problem;
  bool broken, finished, keeps, paused, fates;
  int64_t spin_ns, timeout_ns;
  const struct transport *transport; /* NULL until there was a connection */
  struct lot *lot;                   /* the newest */
  struct message message;
  struct greeting greeting;
  struct reconnect reconnect;
  union {
    struct stream stream;
    struct shared shared;
  };
};

struct transport {
  /* Sets up what stays for the client's life; false with the client broken. */
  bool (*open)(struct framed *client);
  unsigned (*look)(struct framed *client);               /* does what needs no waiting; returns the events that are there */
  unsigned (*events)(struct framed *client);             /* those that are there anyway */
  short (*arm)(struct framed *client);                   /* before a sleep: which conditions of the descriptor end it */
  void (*wake)(struct framed *client, short conditions); /* after it */
  bool (*has_room)(const struct framed *client);
  void (*submit)(struct framed *client, struct lot *lot, unsigned index, const struct native_frame *stamp);
  bool (*receive)(struct framed *client, struct framed_result *result);
  void (*release)(struct framed *client, unsigned place);
  void (*finish)(struct framed *client);
  /* The connection is gone: what is not known to have a fate will be sent again. */
  void (*lose)(struct framed *client);
  /* The daemon will not come again, which is the end of a sink. */
  void (*end)(struct framed *client);
  /* There is another connection, whose greeting has its memory; false with the client broken. */
  bool (*resume)(struct framed *client);
};

extern const struct transport stream_transport, shared_transport;

/* -- greeting.c ------------------------------------------------------------------------------------------------------ */

enum step { STEP_WAIT, STEP_DONE, STEP_FAILED /* with the client broken */ };

/* Connects and says HELLO. One that may not wait, with a deadline of 0, fails where it would have to. */
bool greeting_begin(struct framed *client, int64_t deadline);
/* Reads what there is of the WELCOME, and checks it. */
enum step greeting_step(struct framed *client);
/* Forgets what came with it. */
void greeting_end(struct framed *client);
/* Makes a new connection fit for large frames. */
void connection_tune(const struct framed *client);

/* -- reconnect.c ----------------------------------------------------------------------------------------------------- */

bool reconnect_open(struct framed *client, int64_t for_ns);
void reconnect_close(struct framed *client);
/* Whether the client, which is broken, is so by the loss of a connection that it makes again when it is looked at. */
bool reconnect_may_help(const struct framed *client);
/* Does what needs no waiting, with a connection or without; returns the events that are there. */
unsigned client_look(struct framed *client);
/* How long a sleep may take before the next try, at most `left_ns` (negative: no limit). */
int64_t reconnect_patience(const struct framed *client, int64_t left_ns);
/* For loops of the caller's own: makes the descriptor readable at these conditions of the connection, or when it is time for
 * the next try. Returns what to wait for. */
short reconnect_watch(struct framed *client, short conditions);
/* What a frame says of itself, for those who get its result. */
uint32_t reconnect_mark(struct framed *client);
/* Whether a consumer has had a result with these flags before. */
bool reconnect_knows(const struct framed *client, uint32_t flags);
/* A consumer has a result with these flags now; false: it had it before. */
bool reconnect_is_new(struct framed *client, uint32_t flags);

/* -- memory.c -------------------------------------------------------------------------------------------------------- */

struct lot *lot_new(struct framed *client, unsigned places); /* NULL with the client broken */
/* Frees the lot and all older ones; returns NULL. */
struct lot *lot_free(struct lot *lot);
bool region_make(struct region *region, unsigned count, size_t bytes);
/* Maps a file of the daemon's; false with errno, EPROTO if it could shrink or is smaller than it should be. */
bool region_map(struct region *region, int fd, unsigned count, size_t bytes, size_t stride, bool writable);
/* The place in which a pointer lies at the very beginning, or -1. */
int region_place(const struct region *region, unsigned count, const void *pointer);

/* -- problem.c ------------------------------------------------------------------------------------------------------- */

/* Breaks the client unless it is broken already. `system` is an errno or 0. Returns false. */
bool client_break(struct framed *client, enum framed_code code, int system, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The caller's mistake. Returns FRAMED_FAILED. */
int client_misuse(struct framed *client, const char *what);
/* Breaks the client with what a whole ERROR says. */
bool client_told(struct framed *client, const struct message *message);

/* How many bytes the message needs in all to be understood, as far as is known by now; the payload of a RESULT is apart.
 * 0: it is none that this client may get, and the client is broken. */
size_t message_wanted(struct framed *client);

/* What kind it is, of which a header has come. */
enum native_type message_type(const struct framed *client);

int64_t framed_clock(void);

/* When so many nanoseconds, 0 or more, are over: the last time that there is for those that stand for "without end". */
int64_t framed_after(int64_t now, int64_t ns);

#endif
