/*
 * What the parts of the library share: the client itself, and what a transport does for it.
 *
 * A client is `broken` from the moment at which it can take part in the protocol no more; `problem` then says why and stays.
 * Results that came before are still given out. What comes from the daemon is checked before it is used, as it comes from
 * another process.
 */
#ifndef FRAMED_TOOLS_CLIENT_CLIENT_H
#define FRAMED_TOOLS_CLIENT_CLIENT_H

#include <stdbool.h>

#include "daemon/native_wire.h"
#include "tools/client/framed.h"

#define NS_PER_S INT64_C(1000000000)

enum {
  WELCOME_BYTES = sizeof(struct native_header) + sizeof(struct native_welcome),
  FRAME_BYTES = sizeof(struct native_header) + sizeof(struct native_frame),
  RESULT_BYTES = sizeof(struct native_header) + sizeof(struct native_result),
  ERROR_BYTES = sizeof(struct native_header) + sizeof(struct native_error),
  MESSAGE_BYTES = ERROR_BYTES + NATIVE_ERROR /* the longest one that is not a payload */
};

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

struct stream {
  unsigned places; /* for frames; for results as many */
  struct native_frame stamps[FRAMED_MAX_SLOTS];
  unsigned char queue[FRAMED_MAX_SLOTS]; /* frames to be sent */
  unsigned first, queued;
  size_t sent; /* bytes of the first one, with what stands before it */
  bool cannot_send, shut, ended;
  enum place results[FRAMED_MAX_SLOTS];
  struct native_result heads[FRAMED_MAX_SLOTS];
  unsigned char ready[FRAMED_MAX_SLOTS]; /* results to be received */
  unsigned first_ready, count_ready;
  int filling; /* the place that a result is being read to, or -1 */
  size_t filled;
};

struct shared {
  struct native_control *control;
  uint32_t submitted, seen, taken;  /* cursors: frames, completions looked at, completions done with */
  unsigned char slots[NATIVE_RING]; /* of each completion between `taken` and `seen` */
  bool done[NATIVE_RING];           /* the caller is done with it */
  int64_t heard;                    /* when the connection was last looked at */
  bool slept, ended;
};

struct transport;

struct framed {
  int fd;
  struct framed_info info;
  struct framed_error problem;
  bool broken, finished;
  int64_t spin_ns;
  const struct transport *transport;
  struct region inputs, outputs, control;
  enum place frames[FRAMED_MAX_SLOTS];
  struct message message;
  union {
    struct stream stream;
    struct shared shared;
  };
};

struct transport {
  unsigned (*look)(struct framed *client);               /* does what needs no waiting; returns the events that are there */
  short (*arm)(struct framed *client);                   /* before a sleep: which conditions of the descriptor end it */
  void (*wake)(struct framed *client, short conditions); /* after it */
  void (*submit)(struct framed *client, unsigned index, const struct native_frame *stamp);
  bool (*receive)(struct framed *client, struct framed_result *result);
  void (*release)(struct framed *client, unsigned place);
  void (*finish)(struct framed *client);
};

extern const struct transport stream_transport, shared_transport;

/* Set the transport up after the welcome; false with the client broken. Descriptors stay the caller's. */
bool stream_open(struct framed *client);
bool shared_open(struct framed *client, const struct native_welcome *welcome, const int descriptors[SHARED_DESCRIPTORS]);

/* -- memory.c -------------------------------------------------------------------------------------------------------- */

bool region_make(struct region *region, unsigned count, size_t bytes);
/* Maps a file of the daemon's; false with errno, EPROTO if it could shrink or is smaller than it should be. */
bool region_map(struct region *region, int fd, unsigned count, size_t bytes, size_t stride, bool writable);
void region_drop(struct region *region);
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

bool message_is_result(const struct framed *client); /* its header has come */

int64_t framed_clock(void);

#endif
