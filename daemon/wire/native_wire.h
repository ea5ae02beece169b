/*
 * The native protocol's layout in a socket and in shared memory. Used by the daemon, clients and framed-protocol(7).
 *
 * Every number is little-endian, and every structure is without padding, as checked at the end. Lengths and indexes come from
 * the other side, which is not trusted. Copy each out of shared memory once, check the copy, and use only the copy. Nothing
 * here does input or output.
 *
 *   client                               daemon
 *   HELLO                          ->
 *                                  <-    WELCOME, or ERROR and the end of the connection
 *   FRAME payload, FRAME payload   ->                                 stream transport
 *                                  <-    RESULT payload, RESULT payload, and ACK where the client asked for it
 *
 * With the shared transport WELCOME carries three descriptors (input, output, control) or, for a consumer, two (output,
 * control). From then on the connection carries only doorbells, which are NATIVE_DOORBELL bytes, and perhaps an ERROR at the
 * end.
 */
#ifndef FRAMED_WIRE_NATIVE_WIRE_H
#define FRAMED_WIRE_NATIVE_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
  NATIVE_MAGIC = 0x444D5246, /* "FRMD" */
  NATIVE_VERSION = 1,        /* the newest; each change of a layout raises it */
  NATIVE_OLDEST = 1,         /* HELLO selects one of the last two versions */
  NATIVE_TEXT = 64,          /* bytes of a name or a format, padded with zeros */
  NATIVE_ERROR = 512,        /* longest sentence of an ERROR */
  NATIVE_DOORBELL = 0        /* the byte that wakes the other side of shared memory; never the first byte of a message */
};

enum native_type {
  NATIVE_HELLO = 1,   /* from the client, first */
  NATIVE_WELCOME = 2, /* the answer to HELLO */
  NATIVE_FRAME = 3,   /* from a producer */
  NATIVE_RESULT = 4,  /* to a consumer */
  NATIVE_ERROR_SAID = 5,
  NATIVE_ACK = 6 /* to a producer on the stream transport that asked */
};

/* Precedes every message; `length` is the number of bytes that follow. */
struct native_header {
  uint32_t magic;
  uint16_t type;
  uint16_t flags; /* 0 */
  uint64_t length;
};

/* -- HELLO and WELCOME ------------------------------------------------------------------------------------------- */

enum native_role {
  NATIVE_PRODUCER = 1, /* sends frames to a source socket; results go to the pipeline's sink */
  NATIVE_CONSUMER = 2, /* gets results from a sink socket */
  /* Sends frames to the source socket of a pipeline with `reply`, and gets its results there. */
  NATIVE_BOTH = 3
};

enum native_transport { NATIVE_STREAM = 0, NATIVE_SHARED = 1 };

enum { NATIVE_HELLO_ACKS = 1 }; /* the client asks for acknowledgements */

struct native_hello {
  uint32_t version;
  uint32_t role;
  uint32_t transport; /* the wanted one; WELCOME has the one in use */
  uint32_t flags;     /* 0 in the short form, which ends here */
  uint64_t token;     /* chosen at random by the client, and the same at each reconnect; 0: none */
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
  char input_format[NATIVE_TEXT], output_format[NATIVE_TEXT]; /* as in status, for example "gray 640x480" */
};

/* -- FRAME and RESULT: the fixed parts; a payload of input_bytes or output_bytes follows ---------------------------- */

struct native_frame {
  uint64_t sequence; /* the client's own number, returned in the result */
  /* CLOCK_MONOTONIC ns of its capture, from which latency and deadline are measured; 0: its arrival. */
  int64_t timestamp;
  int64_t deadline; /* CLOCK_MONOTONIC ns after which it is dropped (`late`); 0: the deadline of the pipeline applies */
  uint32_t flags;   /* flags that the client may set; copied to the result */
  uint32_t zero;
};

/* Steps of a frame in ns, limited to the largest value. Device steps are 0 if they were not timed. */
enum native_step {
  NATIVE_RECEIVE,
  NATIVE_QUEUE,
  NATIVE_GPU_WAIT,
  NATIVE_H2D,
  NATIVE_KERNEL,
  NATIVE_D2H,
  NATIVE_WAKE,
  NATIVE_TOTAL, /* from its first byte, or its timestamp, until the result was offered */
  NATIVE_STEPS
};

enum { NATIVE_RESULT_STATE_RESTARTED = 1 }; /* the stages reset their state before this frame */

/*
 * Flags of a frame that the client sets and that the result repeats. NATIVE_AGAIN: the client sends the frame again, because it
 * lost the connection before it knew the frame's fate. NATIVE_MARK: a mark by which the receiver of results recognises a result
 * that it already has. framed-protocol(7) says how clients make the mark; the daemon never reads it.
 */
#define NATIVE_AGAIN       UINT32_C(0x00000002)
#define NATIVE_MARK        UINT32_C(0xFFFFFFF0)
#define NATIVE_FRAME_FLAGS (NATIVE_AGAIN | NATIVE_MARK)
enum { NATIVE_MARK_SHIFT = 4, NATIVE_MARK_NUMBER = 8, NATIVE_MARK_CLIENT = 20 }; /* bits: number of the frame, and the client */

struct native_result {
  uint64_t sequence;
  uint64_t
      /* Frames since the last result whose results this reader does not get: dropped, or missed because it was slow. */
      dropped;
  int64_t timestamp; /* of the frame; its arrival if the client sent none */
  uint32_t steps[NATIVE_STEPS];
  uint32_t session; /* session number of the producer: 0 to clients - 1 */
  uint32_t flags;
  uint64_t number; /* counts the frames of their producer from 0 */
  uint64_t epoch;  /* identifies the producer among all of the pipeline, also across restarts */
};

/* -- ACK --------------------------------------------------------------------------------------------------------------- */

struct native_ack {
  /* This many frames of this connection, from its first on, have a fate other than `client_gone` and `shutdown`. */
  uint64_t frames;
};

/* -- ERROR: the header, this, and length - 8 bytes of one sentence --------------------------------------------------- */

enum native_error_code {
  NATIVE_E_PROTOCOL = 1, /* the client broke the protocol */
  NATIVE_E_VERSION = 2,  /* unsupported protocol version */
  NATIVE_E_ROLE = 3,     /* role not possible on this socket */
  NATIVE_E_BUSY = 4,     /* all sessions are in use; try again later */
  NATIVE_E_QUOTA = 5,    /* per-user quota exceeded */
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
 * A slot belongs to the client or to the daemon; at the start all are the client's. The client writes a frame into a slot's
 * input and submits the slot, which then belongs to the daemon. The completion returns it, with the result in its output
 * (`both`) or without (a dropped frame, or a producer). The client reads the output before it submits the slot again.
 *
 * The control memory of a consumer has completions only. Each lets it read the output of a slot until it moves `taken` past the
 * completion, for which it also rings.
 *
 * Cursors count from 0 and wrap at 2^32; entry n is at index n modulo NATIVE_RING. At most `slots` entries are under way, so
 * rings cannot overflow. A cursor that says so comes from a faulty client.
 *
 * Sleeping: a side with nothing to do sets its flag, checks once more, and sleeps. A side that has written a cursor checks the
 * other's flag; if it is set, it clears the flag and rings. Between writing and checking, each side needs sequentially
 * consistent accesses or such a fence.
 */
enum { NATIVE_RING = 16, NATIVE_CONTROL = 16384 };

struct native_submission {
  uint32_t slot;
  uint32_t zero;
  struct native_frame frame;
};

/* The fate of a frame, numbered like the daemon's fates. */
struct native_completion {
  uint32_t slot;
  uint32_t fate;
  struct native_result result;
};

/* The control memory. The daemon never reads back from it what it must trust. */
struct native_control {
  struct {                                   /* written by the client */
    _Alignas(64) _Atomic uint32_t submitted; /* cursor behind the last submission */
    _Alignas(64) _Atomic uint32_t taken;     /* cursor behind the last completion that it consumed */
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

/* Clients of version 1 depend on these layouts. A change needs a new version: see VERSIONS in framed-protocol(7). */
_Static_assert(sizeof(struct native_submission) == 40 && sizeof(struct native_completion) == 88, "layout of version 1");
_Static_assert(sizeof(struct native_header) == 16, "layout of version 1");
_Static_assert(sizeof(struct native_hello) == 24, "layout of version 1");
_Static_assert(sizeof(struct native_welcome) == 256, "layout of version 1");
_Static_assert(sizeof(struct native_frame) == 32, "layout of version 1");
_Static_assert(sizeof(struct native_result) == 80, "layout of version 1");
_Static_assert(sizeof(struct native_ack) == 8, "layout of version 1");
_Static_assert(sizeof(struct native_control) == NATIVE_CONTROL, "layout");

#endif
