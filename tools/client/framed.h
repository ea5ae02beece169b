/*
 * libframed: a client of the frame-processing daemon framed, over its native protocol.
 *
 * A producer writes frames into memory that the daemon's device reads, and reads results where the device wrote them. If the
 * daemon shares no memory, the same calls use the connection. framed(3) shows a complete program.
 *
 * Calls of one client must not overlap, whichever threads make them. Different clients are independent. The library starts no
 * thread, has no global state and raises no signal. After framed_connect() it allocates memory only to reconnect. Only
 * framed_connect() and framed_poll() wait. After a fork only one of the two processes may use a client. The other may only
 * close it, which does not affect the first.
 *
 * A call reports a failure by its value, and framed_problem() has the reason. After FRAMED_FAILED with the problem
 * FRAMED_E_USAGE the client continues as before. After any other problem it accepts no more frames: receive its remaining
 * results, then close it.
 *
 * Times are nanoseconds. Points in time are of CLOCK_MONOTONIC.
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
  /* Reported by the daemon. */
  FRAMED_E_PROTOCOL = 1, /* this client violated the protocol */
  FRAMED_E_VERSION = 2,  /* the daemon speaks another version of the protocol */
  FRAMED_E_ROLE = 3,     /* the socket does not serve this role */
  FRAMED_E_BUSY = 4,     /* the pipeline has no place for another client */
  FRAMED_E_QUOTA = 5,    /* the quota of this user is exceeded */
  FRAMED_E_TIMEOUT = 6,  /* the daemon, or this library while connecting, waited too long */
  FRAMED_E_STOPPING = 7, /* the daemon or the pipeline is stopping */
  FRAMED_E_INTERNAL = 8, /* the daemon lacks memory or descriptors */
  FRAMED_E_DENIED = 9,   /* this user may not connect */
  /* Found by this library. */
  FRAMED_E_SYSTEM = 64, /* a system call failed: `system` is its errno */
  FRAMED_E_CLOSED = 65, /* the daemon closed the connection without a reason */
  FRAMED_E_DAEMON = 66, /* the peer violated the protocol: the socket may not be a native socket of framed */
  FRAMED_E_USAGE = 67   /* this call is not allowed now */
};

struct framed_error {
  int code;               /* enum framed_code */
  int system;             /* errno, or 0 */
  char text[FRAMED_TEXT]; /* for people; "" if there is no problem */
};

enum { FRAMED_FAILED = -1 };

/* -- connecting ------------------------------------------------------------------------------------------------------ */

enum framed_role {
  FRAMED_PRODUCER = 1, /* sends frames to a source; the pipeline's sink gets the results */
  FRAMED_CONSUMER = 2, /* receives results from a sink */
  FRAMED_BOTH = 3      /* sends frames to the source of a pipeline whose sink is `reply`, and receives its results */
};

enum framed_transport {
  FRAMED_STREAM = 0, /* frames and results are copied through the connection */
  FRAMED_SHARED = 1  /* frames and results stay in memory shared with the daemon */
};

/* All zero is valid. Later versions may use the reserved part, so keep it zero. */
struct framed_options {
  int role;                   /* enum framed_role; 0: FRAMED_BOTH */
  int stream_only;            /* not 0: use no shared memory */
  int64_t spin_ns;            /* how long framed_poll() polls before it sleeps */
  int64_t connect_timeout_ns; /* 0: ten seconds */
  int64_t reconnect_for_ns;   /* see "Reconnection" below; 0: ten seconds; negative: the client does not reconnect */
  int64_t fates; /* not 0: with shared memory, framed_receive() reports the fate of each frame to a FRAMED_PRODUCER */
  int64_t reserved[2];
};

/*
 * Connects to the native socket at `path`, and returns after the daemon's welcome. `options` may be NULL. Returns NULL on
 * failure, with the reason in `error` unless that is NULL. framed_close() frees the client.
 */
FRAMED_API struct framed *framed_connect(const char *path, const struct framed_options *options, struct framed_error *error);

/*
 * Reconnection. A daemon that stops or is killed, and returns within `reconnect_for_ns`, causes only a pause. The client
 * reconnects to the same path in the same role. Until then calls behave as with a slow daemon.
 *
 * The client keeps each frame until its fate is known. After a reconnection it sends the frames without a known fate again, in
 * order. These include frames that a stopping daemon gave up (FRAMED_CLIENT_GONE, FRAMED_SHUTDOWN). Each result comes once: a
 * FRAMED_CONSUMER skips results that it already has.
 *
 * Frames and results that the caller holds keep their place in memory. One exception is a FRAMED_CONSUMER with shared memory:
 * once the connection is lost, the pipeline may write other results into that memory. A result was intact if `session` of
 * framed_info() is the same before and after reading it.
 *
 * Frames that a pipeline drops by its configuration stay dropped. A sink with `overload: drop` also drops results while its
 * readers reconnect.
 *
 * If the daemon does not return in time, the client fails with the first problem; a consumer reaches FRAMED_END. It fails at
 * once if the pipeline returns with other formats, or if the daemon refuses it permanently.
 */

/* Closes the connection at once and frees everything, including frames and results. `client` may be NULL. Returns NULL. */
FRAMED_API struct framed *framed_close(struct framed *client);

/* From the daemon's welcome. */
struct framed_info {
  int role, transport;
  unsigned slots;                   /* of the session: how many frames may be in flight */
  size_t input_bytes, output_bytes; /* of a frame, of a result */
  uint64_t session;                 /* the daemon's number of this session; it changes with each reconnection */
  char pipeline[FRAMED_NAME];
  char input_format[FRAMED_NAME], output_format[FRAMED_NAME]; /* such as "gray 640x480" */
};

FRAMED_API const struct framed_info *framed_info(const struct framed *client);     /* valid until framed_close() */
FRAMED_API const struct framed_error *framed_problem(const struct framed *client); /* the last problem; never NULL */

/* -- frames: producer and both ------------------------------------------------------------------------------------------ */

/*
 * Memory for a frame of `input_bytes`, aligned to a page, with the last contents of that place. The caller owns it until
 * framed_submit(), and may hold several. Returns NULL if no place is free (wait with framed_poll() for FRAMED_ROOM), or if the
 * client has failed.
 */
FRAMED_API void *framed_acquire(struct framed *client);

/*
 * Submits an acquired frame. The daemon owns it from here on, even if the call fails. `sequence` is the caller's own number,
 * which the result repeats. `timestamp` is when the frame was made (0: when it arrives); latency and the pipeline's deadline
 * count from there. `deadline` is when the frame becomes useless (0: the pipeline's deadline). Returns 0 or FRAMED_FAILED.
 */
FRAMED_API int framed_submit(struct framed *client, void *frame, uint64_t sequence, int64_t timestamp, int64_t deadline);

/* Returns an acquired frame without submitting it. */
FRAMED_API void framed_cancel(struct framed *client, void *frame);

/*
 * Announces that no frame will follow, and discards acquired frames. Frames in flight are still processed; FRAMED_END reports
 * when the last one is done. Returns 0 or FRAMED_FAILED.
 */
FRAMED_API int framed_finish(struct framed *client);

/* -- results: consumer and both ----------------------------------------------------------------------------------------- */

enum framed_step {
  FRAMED_RECEIVE,  /* from a frame's first byte to its last */
  FRAMED_QUEUE,    /* until its dispatch to the device */
  FRAMED_GPU_WAIT, /* on the device, waiting for an engine or between two engines */
  FRAMED_H2D,      /* copy to the device */
  FRAMED_KERNEL,   /* the stages */
  FRAMED_D2H,      /* copy from the device */
  FRAMED_WAKE,     /* until the daemon noticed */
  FRAMED_TOTAL,    /* from its first byte, or its timestamp, until the result was offered to the sink */
  FRAMED_STEPS
};

/* The fate of a frame. Only FRAMED_EMITTED has a result. */
enum framed_fate {
  FRAMED_EMITTED,
  FRAMED_OLDEST,      /* a newer frame replaced it */
  FRAMED_NEWEST,      /* no slot was free when it arrived */
  FRAMED_LATE,        /* its deadline passed */
  FRAMED_INVALID,     /* malformed, or stamped in the future */
  FRAMED_GPU_FAULT,   /* on the device when the device failed */
  FRAMED_CLIENT_GONE, /* the client for the reply disconnected */
  FRAMED_UNREAD,      /* no reader received it */
  FRAMED_SINK_ERROR,  /* the file could not be written */
  FRAMED_SHUTDOWN     /* unfinished when the daemon stopped */
};

/* Flags of a result. */
enum {
  FRAMED_STATE_RESTARTED = 1, /* the state of the pipeline's stages was reset before this frame */
  FRAMED_AGAIN = 2            /* the frame was sent again after its first connection was lost */
};

struct framed_result {
  const void *data; /* `size` bytes, valid until framed_release(); NULL: the frame has no result */
  size_t size;
  uint64_t sequence; /* of the frame */
  uint64_t dropped;  /* frames since the previous result that have no result for this client */
  int64_t timestamp; /* of the frame; its arrival if it had none */
  int fate;          /* enum framed_fate, or a number of a later version */
  unsigned session;  /* the producer's place at the pipeline */
  unsigned flags;
  uint64_t number; /* the daemon's number of the frame, counted per producer from 0 */
  uint64_t epoch;  /* identifies the producer in the pipeline's history: pipeline, epoch and number name a frame uniquely */
  uint32_t steps[FRAMED_STEPS]; /* 2^32 - 1: the step took longer; 0: a step on the device that was not timed */
  unsigned place;               /* private to the library */
};

/*
 * Receives the next result in frame order. Returns 1, 0 if no result is ready, or FRAMED_FAILED. The caller can hold as many
 * results as there are slots; with shared memory each held result also keeps its frame's slot.
 *
 * With shared memory a dropped frame is reported with data NULL. Over a connection only `dropped` of the next result counts it.
 * A producer with `fates` receives all its frames with data NULL; FRAMED_EMITTED means that the result was sent.
 */
FRAMED_API int framed_receive(struct framed *client, struct framed_result *result);

/* Releases a result's memory. Any order is allowed; the order of the results is best. Results without data need no release. */
FRAMED_API void framed_release(struct framed *client, const struct framed_result *result);

/* "emitted", "late", ...; "?" for an unknown number. */
FRAMED_API const char *framed_fate_name(int fate);

/* -- waiting --------------------------------------------------------------------------------------------------------------- */

enum framed_event {
  FRAMED_RESULT = 1, /* framed_receive() has a result */
  FRAMED_ROOM = 2,   /* framed_acquire() has a free place */
  FRAMED_END = 4     /* nothing will follow: after framed_finish(), or at the end of a sink */
};

/*
 * Waits for one of the `wanted` events; FRAMED_END is always wanted. Returns all pending events, 0 after `timeout_ns`
 * (negative: no timeout) or a signal, or FRAMED_FAILED. It also transfers data over the connection: with FRAMED_STREAM only
 * this call guarantees that a frame is sent.
 */
FRAMED_API int framed_poll(struct framed *client, int wanted, int64_t timeout_ns);

/*
 * For the caller's event loop. framed_arm() returns the pending events, like framed_poll() with a timeout of 0. If none is
 * wanted, `conditions` receives the poll events (POLLIN, POLLOUT) to wait for before the next call. Do not read, write or close
 * the descriptor. It stays the same for the client's life, including reconnections, and may stay in an epoll set.
 */
FRAMED_API int framed_descriptor(const struct framed *client);
FRAMED_API int framed_arm(struct framed *client, int wanted, short *conditions);

#ifdef __cplusplus
}
#endif

#endif
