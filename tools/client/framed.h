/*
 * libframed: a client of the frame-processing daemon framed, over its native protocol.
 *
 * A producer writes frames where the daemon's device reads them and gets results where the device wrote them, through
 * memory that the daemon lends it; where the daemon lends none, the same calls go over the connection. framed(3) shows a
 * whole program.
 *
 * Calls of one client must not overlap in time, from whichever threads they come; different clients do not know of each other.
 * The library starts no thread, keeps nothing global, raises no signal, and allocates nothing after framed_connect(), except
 * when it connects again. Except for framed_connect() and framed_poll(), no call waits. After a fork only one of the two
 * processes may go on with a client; the other may only close it, which ends nothing for the first.
 *
 * A call that can fail says so by its value, and framed_problem() says why. If a call returns FRAMED_FAILED and the problem is
 * FRAMED_E_USAGE, the client goes on as before. After any other problem it takes and gives no more frames: receive the results
 * that it already has, then close it.
 *
 * Times are nanoseconds, points in time of CLOCK_MONOTONIC.
 */
#ifndef FRAMED_H
#define FRAMED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FRAMED_API __attribute__((visibility("default")))
#else
#define FRAMED_API
#endif

struct framed; /* a client: one connection to one pipeline */

enum { FRAMED_MAX_SLOTS = 16, FRAMED_NAME = 64, FRAMED_TEXT = 640 };

/* -- problems -------------------------------------------------------------------------------------------------------- */

enum framed_code {
  FRAMED_OK = 0,
  /* What the daemon said. */
  FRAMED_E_PROTOCOL = 1, /* this client broke the protocol */
  FRAMED_E_VERSION = 2,  /* the daemon speaks another version of it */
  FRAMED_E_ROLE = 3,     /* the socket is not for this role */
  FRAMED_E_BUSY = 4,     /* every seat is taken */
  FRAMED_E_QUOTA = 5,    /* this user has what one user may have */
  FRAMED_E_TIMEOUT = 6,  /* the daemon, or this library while connecting, waited for too long */
  FRAMED_E_STOPPING = 7, /* the daemon or the pipeline ends */
  FRAMED_E_INTERNAL = 8, /* the daemon lacks memory or descriptors */
  FRAMED_E_DENIED = 9,   /* this user may not connect */
  /* What this library found. */
  FRAMED_E_SYSTEM = 64, /* a system call failed: `system` is its errno */
  FRAMED_E_CLOSED = 65, /* the daemon closed the connection without a word */
  FRAMED_E_DAEMON = 66, /* what is connected broke the protocol: it may be no native socket of framed */
  FRAMED_E_USAGE = 67   /* this call makes no sense at this point */
};

struct framed_error {
  int code;               /* enum framed_code */
  int system;             /* errno, or 0 */
  char text[FRAMED_TEXT]; /* a sentence for people; "" if there is no problem */
};

enum { FRAMED_FAILED = -1 };

/* -- connecting ------------------------------------------------------------------------------------------------------ */

enum framed_role {
  FRAMED_PRODUCER = 1, /* sends frames to a source; results go to the pipeline's sink */
  FRAMED_CONSUMER = 2, /* takes results from a sink */
  FRAMED_BOTH = 3      /* sends frames to the source of a pipeline whose sink is `reply`, and takes its results */
};

enum framed_transport {
  FRAMED_STREAM = 0, /* frames and results are copied through the connection */
  FRAMED_SHARED = 1  /* they stay where they are, in memory shared with the daemon */
};

/* All zero is fine; later versions may give the reserved part a meaning, so leave it zero. */
struct framed_options {
  int role;                   /* enum framed_role; 0: FRAMED_BOTH */
  int stream_only;            /* not 0: do not ask for shared memory */
  int64_t spin_ns;            /* how long framed_poll() looks again and again before it sleeps */
  int64_t connect_timeout_ns; /* 0: ten seconds */
  int64_t reconnect_for_ns;   /* see "a daemon that goes"; 0: ten seconds; negative: the client does not connect again */
  int64_t
      fates; /* not 0, of a FRAMED_PRODUCER: framed_receive() tells the fate of each of its frames, where memory is shared */
  int64_t reserved[2];
};

/*
 * Connects to the native socket at `path`, and returns when the daemon has welcomed the client. `options` may be NULL.
 * On failure NULL, and the reason in `error` unless that is NULL. framed_close() ends it.
 */
FRAMED_API struct framed *framed_connect(const char *path, const struct framed_options *options, struct framed_error *error);

/*
 * A daemon that goes, killed or in good order, and is back within `reconnect_for_ns` is only a pause. The client connects
 * again, with the same role and to the same path, as soon as it can; until then calls behave as with a slow daemon. The client
 * keeps each frame until it knows the frame's fate, and sends those without a known fate again, in their order; they include
 * frames that the daemon gave up because it ended (FRAMED_CLIENT_GONE, FRAMED_SHUTDOWN). Each result comes once: for
 * FRAMED_BOTH this follows from the above, and a FRAMED_CONSUMER leaves out results of frames sent again that it already has.
 * Frames and results that the caller holds stay where they are. But what a FRAMED_CONSUMER holds in shared memory is the
 * pipeline's again once the connection is gone, and the pipeline may write other results there: a result was whole if `session`
 * of framed_info() is the same after reading it as before.
 *
 * Frames that a pipeline drops by its configuration stay dropped, and a sink that drops results for want of a reader
 * (`overload: drop`) does so while its readers are on their way back.
 *
 * If the daemon does not come back in time, the client fails with what it saw first, or, for a consumer, reaches FRAMED_END.
 * It fails at once if the pipeline is there again with other formats, or if the daemon turns it away for good.
 */

/* Ends the connection at once and frees everything, pointers to frames and results with it. NULL is fine; returns NULL. */
FRAMED_API struct framed *framed_close(struct framed *client);

/* What the daemon said when it welcomed the client. */
struct framed_info {
  int role, transport;
  unsigned slots;                   /* of the session: how many frames may be under way */
  size_t input_bytes, output_bytes; /* of a frame, of a result */
  uint64_t session;                 /* its number in the daemon's life: another one once it has connected again */
  char pipeline[FRAMED_NAME];
  char input_format[FRAMED_NAME], output_format[FRAMED_NAME]; /* such as "gray 640x480" */
};

FRAMED_API const struct framed_info *framed_info(const struct framed *client);     /* stays until framed_close() */
FRAMED_API const struct framed_error *framed_problem(const struct framed *client); /* the last one; never NULL */

/* -- frames: producer and both ------------------------------------------------------------------------------------------ */

/*
 * Memory for a frame of `input_bytes`, aligned to a page, with its former contents. It is the caller's until it is submitted;
 * several may be held at once. NULL: none is free (framed_poll() for FRAMED_ROOM waits for one), or the client has failed.
 */
FRAMED_API void *framed_acquire(struct framed *client);

/*
 * Submits an acquired frame; it is the daemon's from here on, whatever happens. `sequence` is the caller's own number and comes
 * back in the result. `timestamp` is when the frame was made (0: when it arrives); its latency and the pipeline's deadline run
 * from there. `deadline` is when the frame is of no more use (0: the pipeline's deadline). Returns 0 or FRAMED_FAILED.
 */
FRAMED_API int framed_submit(struct framed *client, void *frame, uint64_t sequence, int64_t timestamp, int64_t deadline);

/* Gives an acquired frame back without submitting it. */
FRAMED_API void framed_cancel(struct framed *client, void *frame);

/* Says that no frame will follow; frames not submitted are given up. Frames under way go on: FRAMED_END says when none is left.
 * Returns 0 or FRAMED_FAILED. */
FRAMED_API int framed_finish(struct framed *client);

/* -- results: consumer and both ----------------------------------------------------------------------------------------- */

enum framed_step {
  FRAMED_RECEIVE,  /* from a frame's first byte to its last */
  FRAMED_QUEUE,    /* until its dispatch to the device */
  FRAMED_GPU_WAIT, /* on the device, waiting for an engine or handed from one to the next */
  FRAMED_H2D,      /* copy to the device */
  FRAMED_KERNEL,   /* the stages */
  FRAMED_D2H,      /* copy from the device */
  FRAMED_WAKE,     /* until the daemon took notice */
  FRAMED_TOTAL,    /* from its first byte, or its timestamp, until the result was offered */
  FRAMED_STEPS
};

/* What became of a frame: with FRAMED_EMITTED there is a result. */
enum framed_fate {
  FRAMED_EMITTED,
  FRAMED_OLDEST,      /* a newer frame took its place */
  FRAMED_NEWEST,      /* no slot was free when it came */
  FRAMED_LATE,        /* its deadline passed */
  FRAMED_INVALID,     /* malformed, or stamped in the future */
  FRAMED_GPU_FAULT,   /* on the device when that failed */
  FRAMED_CLIENT_GONE, /* the client that would get the reply left */
  FRAMED_UNREAD,      /* no reader took it */
  FRAMED_SINK_ERROR,  /* the file could not be written */
  FRAMED_SHUTDOWN     /* unfinished when the daemon stopped */
};

/* Flags of a result. */
enum {
  FRAMED_STATE_RESTARTED = 1, /* the state of the pipeline's stages began anew with this frame */
  FRAMED_AGAIN = 2            /* the frame was sent again, since the connection that first carried it was lost */
};

struct framed_result {
  const void *data; /* `size` bytes until framed_release(); NULL: the frame has no result */
  size_t size;
  uint64_t sequence; /* the frame's */
  uint64_t dropped;  /* frames since the result before it of which there is none for this client */
  int64_t timestamp; /* the frame's; its arrival if it had none */
  int fate;          /* enum framed_fate, or a number that a later daemon knows */
  unsigned session;  /* seat of the producer */
  unsigned flags;
  uint64_t number; /* the daemon's own number of the frame: counts those of its producer from 0, */
  uint64_t epoch;  /* whom this tells from all others of the pipeline; pipeline, epoch and number name a frame for ever */
  uint32_t steps[FRAMED_STEPS]; /* 2^32 - 1 where one took longer; 0 for steps on the device that were not timed */
  unsigned place;               /* the library's */
};

/*
 * The next result, in the order of the frames: 1, or 0 if there is none now, or FRAMED_FAILED. At most as many results as there
 * are slots can be held at once; where memory is shared, each held result also keeps its frame's slot. A dropped frame comes
 * with data NULL where memory is shared; over a connection only `dropped` of the next result tells of it. A producer with
 * `fates` gets all of its frames so; they are FRAMED_EMITTED once their results went out.
 */
FRAMED_API int framed_receive(struct framed *client, struct framed_result *result);

/* Gives a result's memory back, in any order; best in the order of the results. Results without data may be released, but need
 * not be. */
FRAMED_API void framed_release(struct framed *client, const struct framed_result *result);

/* "emitted", "late", ...; "?" for a number that is none of enum framed_fate. */
FRAMED_API const char *framed_fate_name(int fate);

/* -- waiting --------------------------------------------------------------------------------------------------------------- */

enum framed_event {
  FRAMED_RESULT = 1, /* framed_receive() has something */
  FRAMED_ROOM = 2,   /* framed_acquire() has something */
  FRAMED_END = 4     /* nothing will come any more: after framed_finish(), or at the end of a sink */
};

/*
 * Waits until one of the `wanted` events is there; FRAMED_END is always wanted. Returns all events that are there, 0 after
 * `timeout_ns` (negative: never) or at a signal, or FRAMED_FAILED. It also moves bytes both ways where they go through the
 * connection: with FRAMED_STREAM a frame is on its way for certain only after this.
 */
FRAMED_API int framed_poll(struct framed *client, int wanted, int64_t timeout_ns);

/*
 * For a loop of the caller's own. Like framed_poll() with a timeout of 0, framed_arm() returns the events that are there; if
 * none of `wanted` is, `conditions` says what of the descriptor (POLLIN, POLLOUT) to wait for before the next call. Do not
 * read, write or close the descriptor. It stays the same for the client's life, through every pause, and may stay in an epoll
 * set.
 */
FRAMED_API int framed_descriptor(const struct framed *client);
FRAMED_API int framed_arm(struct framed *client, int wanted, short *conditions);

#ifdef __cplusplus
}
#endif

#endif
