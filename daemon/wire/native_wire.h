/*
 * The native protocol as it lies in a socket and in shared memory: what daemon, clients and framed-protocol(7) agree on.
 *
 * Every number is little-endian and every structure is laid out without padding, as checked at the end. Lengths and
 * indexes come from the other side, which may lie: copy one out of shared memory once, then check it, then use the copy.
 * Nothing here does input or output.
 *
 *   client                               daemon
 *   HELLO                          ->
 *                                  <-    WELCOME, or ERROR and the end of the connection
 *   FRAME payload, FRAME payload   ->                                 stream transport
 *                                  <-    RESULT payload, RESULT payload, and ACK where the client asked for it
 *
 * With the shared transport WELCOME carries three descriptors (input, output, control; a consumer's: output, control), and from
 * then on the connection carries doorbells only, NATIVE_DOORBELL bytes of no other meaning, and perhaps an ERROR at the end.
 */
#ifndef FRAMED_WIRE_NATIVE_WIRE_H
#define FRAMED_WIRE_NATIVE_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
  NATIVE_MAGIC = 0x444D5246, /* "FRMD" */
  NATIVE_VERSION = 1,        /* the newest: a layout that changes raises it */
  NATIVE_OLDEST = 1,         /* the daemon speaks the last two, as HELLO asks */
  NATIVE_TEXT = 64,          /* bytes of a name or a format, zeros behind it */
  NATIVE_ERROR = 512,        /* longest sentence of an ERROR */
  NATIVE_DOORBELL = 0        /* the byte that wakes the other side of shared memory; no message begins with it */
};

enum native_type {
  NATIVE_HELLO = 1,   /* from the client, first */
  NATIVE_WELCOME = 2, /* the answer to it */
  NATIVE_FRAME = 3,   /* from a producer */
  NATIVE_RESULT = 4,  /* to a consumer */
  NATIVE_ERROR_SAID = 5,
  NATIVE_ACK = 6 /* to a producer on the stream transport that asked for it */
};

/* Before every message; `length` counts the bytes behind it. */
struct native_header {
  uint32_t magic;
  uint16_t type;
  uint16_t flags; /* 0 */
  uint64_t length;
};

/* -- HELLO and WELCOME ------------------------------------------------------------------------------------------- */

enum native_role {
  NATIVE_PRODUCER = 1, /* sends frames to a source socket; results go to the pipeline's sink */
  NATIVE_CONSUMER = 2, /* takes results from a sink socket */
  NATIVE_BOTH = 3      /* sends frames to the source socket of a pipeline with `reply`, and takes its results there */
};

enum native_transport { NATIVE_STREAM = 0, NATIVE_SHARED = 1 };

enum { NATIVE_HELLO_ACKS = 1 }; /* the client wants to know which of its frames have their fate */

struct native_hello {
  uint32_t version;
  uint32_t role;
  uint32_t transport; /* the one it would like; WELCOME says which one it is */
  uint32_t flags;     /* 0 in the short form, which ends here */
  uint64_t token;     /* made at random by the client, the same each time that it comes back; 0: none */
};

struct native_welcome {
  uint32_t version;
  uint32_t role;
  uint32_t transport;
  uint32_t slots;                       /* of the session: how many frames may be under way */
  uint64_t input_bytes, output_bytes;   /* of one frame, of one result */
  uint64_t input_stride, output_stride; /* shared: slot n begins at n times the stride */
  uint64_t control_bytes;               /* shared */
  uint64_t session;                     /* counts the native clients of this socket from 1 */
  char pipeline[NATIVE_TEXT];
  char input_format[NATIVE_TEXT], output_format[NATIVE_TEXT]; /* as status writes them, such as "gray 640x480" */
};

/* -- FRAME and RESULT: the fixed parts; a payload of input_bytes or output_bytes follows ---------------------------- */

struct native_frame {
  uint64_t sequence; /* the client's own number, given back in the result */
  int64_t timestamp; /* CLOCK_MONOTONIC ns of its capture, from which its latency and deadline run; 0: its arrival */
  int64_t deadline;  /* CLOCK_MONOTONIC ns after which it is of no use (`late`); 0: the pipeline's */
  uint32_t flags;    /* those of its result that are the client's to set */
  uint32_t zero;
};

/* Steps of the flow in ns, the largest value where one takes longer; device steps are 0 if they were not timed. */
enum native_step {
  NATIVE_RECEIVE,
  NATIVE_QUEUE,
  NATIVE_GPU_WAIT,
  NATIVE_H2D,
  NATIVE_KERNEL,
  NATIVE_D2H,
  NATIVE_WAKE,
  NATIVE_TOTAL, /* from its first byte, or its stamp, until the result was offered */
  NATIVE_STEPS
};

enum { NATIVE_RESULT_STATE_RESTARTED = 1 }; /* the stages' state began anew with this frame */

/*
 * What a client sets in a frame's flags comes back in those of its result: whether it sends the frame again, having lost the
 * connection before it knew its fate, and a mark by which whoever gets the results knows one that it already has.
 * framed-protocol(7) says how clients make it; the daemon never looks at it.
 */
#define NATIVE_AGAIN       UINT32_C(0x00000002)
#define NATIVE_MARK        UINT32_C(0xFFFFFFF0)
#define NATIVE_FRAME_FLAGS (NATIVE_AGAIN | NATIVE_MARK)
enum { NATIVE_MARK_SHIFT = 4, NATIVE_MARK_NUMBER = 8, NATIVE_MARK_CLIENT = 20 }; /* bits: the frame's number, the client */

struct native_result {
  uint64_t sequence;
  uint64_t
      dropped; /* frames before it, since the last result, of which its reader gets none: dropped, or missed by a slow one */
  int64_t timestamp; /* the frame's; its arrival if it had none */
  uint32_t steps[NATIVE_STEPS];
  uint32_t session; /* place of the producer: 0 to clients - 1 */
  uint32_t flags;
  uint64_t number; /* the daemon's own: counts the frames of their producer from 0, */
  uint64_t epoch;  /* and this tells its producer from all others of the pipeline, also of other daemons' lives */
};

/* -- ACK --------------------------------------------------------------------------------------------------------------- */

struct native_ack {
  uint64_t frames; /* this many of this connection, from its first on, have a fate other than `client_gone` and `shutdown` */
};

/* -- ERROR: the header, this, and length - 8 bytes of one sentence --------------------------------------------------- */

enum native_error_code {
  NATIVE_E_PROTOCOL = 1, /* the client broke the protocol */
  NATIVE_E_VERSION = 2,  /* of the protocol */
  NATIVE_E_ROLE = 3,     /* not on this socket */
  NATIVE_E_BUSY = 4,     /* every place is taken; later there may be one */
  NATIVE_E_QUOTA = 5,    /* this user has what one user may have */
  NATIVE_E_TIMEOUT = 6,
  NATIVE_E_STOPPING = 7, /* the daemon or the pipeline ends */
  NATIVE_E_INTERNAL = 8,
  NATIVE_E_DENIED = 9 /* this user may not connect */
};

struct native_error {
  uint32_t code;
  uint32_t zero;
};

/* -- shared memory -------------------------------------------------------------------------------------------------- */

/*
 * A slot belongs to the client or to the daemon. At the start all are the client's. It writes a frame into a slot's input
 * and submits the slot, which is the daemon's from then on; the completion gives it back, with the result in its output
 * (`both`) or without (a dropped frame, or a producer). The client reads the output before it submits the slot again.
 *
 * A consumer's control memory has completions only: each lends it the output of a slot until it moves `taken` past it, for
 * which it also rings.
 *
 * Cursors count from 0 and wrap at 2^32; entry n lies in place n modulo NATIVE_RING. At most `slots` entries are under
 * way, so no ring can overflow; one that does shows a client that lies.
 *
 * Sleeping: a side that finds nothing to do sets its flag, looks once more, and sleeps. A side that has written a cursor looks
 * at the other's flag, and if that is set clears it and rings. Between what it writes and what it looks at, each side has
 * sequentially consistent accesses or a fence of that order.
 */
enum { NATIVE_RING = 16, NATIVE_CONTROL = 16384 };

struct native_submission {
  uint32_t slot;
  uint32_t zero;
  struct native_frame frame;
};

/* What became of a frame, in the order of the daemon's fates. */
struct native_completion {
  uint32_t slot;
  uint32_t fate;
  struct native_result result;
};

/* The control memory. Nothing that the daemon must be able to trust is ever read back from its own page. */
struct native_control {
  struct {                                   /* written by the client */
    _Alignas(64) _Atomic uint32_t submitted; /* cursor behind the last submission */
    _Alignas(64) _Atomic uint32_t taken;     /* cursor behind the last completion that it is done with */
    _Alignas(64) _Atomic uint32_t sleeps;    /* 1: ring after the next completion */
    unsigned char rest[4096 - 132];
  } client;
  struct {                                   /* written by the daemon */
    _Alignas(64) _Atomic uint32_t completed; /* cursor behind the last completion */
    _Alignas(64) _Atomic uint32_t sleeps;    /* 1: ring after the next submission */
    unsigned char rest[4096 - 68];
  } daemon;
  struct native_submission submissions[NATIVE_RING]; /* written by the client */
  unsigned char rest_of_submissions[4096 - NATIVE_RING * 40];
  struct native_completion completions[NATIVE_RING]; /* written by the daemon */
  unsigned char rest_of_completions[4096 - NATIVE_RING * 88];
};

/* Clients of version 1 rely on these layouts. A layout that changes needs a new version: see VERSIONS in framed-protocol(7). */
_Static_assert(sizeof(struct native_submission) == 40 && sizeof(struct native_completion) == 88, "layout of version 1");
_Static_assert(sizeof(struct native_header) == 16, "layout of version 1");
_Static_assert(sizeof(struct native_hello) == 24, "layout of version 1");
_Static_assert(sizeof(struct native_welcome) == 256, "layout of version 1");
_Static_assert(sizeof(struct native_frame) == 32, "layout of version 1");
_Static_assert(sizeof(struct native_result) == 80, "layout of version 1");
_Static_assert(sizeof(struct native_ack) == 8, "layout of version 1");
_Static_assert(sizeof(struct native_control) == NATIVE_CONTROL, "layout");

#endif
