/*
 * Receiving: turns the bytes of a producer into frames in slots.
 *
 * A source asks where the next bytes go (receive_vector), reads them there, and reports how many came (receive_advance).
 * Payload is read straight into the slot. Only preambles, and the few bytes read behind one, go through a small staging buffer.
 * At the first byte of a frame this module decides whether the frame gets a slot, waits (`block`) or is dropped, and numbers
 * it. It never reads by itself and has no file descriptor.
 */
#ifndef FRAMED_FRAME_RECEIVE_H
#define FRAMED_FRAME_RECEIVE_H

#include <sys/uio.h>

#include "daemon/frame/flow.h"
#include "daemon/wire/protocol.h"
#include "daemon/wire/segment.h"

enum {
  RECEIVE_VECTORS = 4, /* as many as libuv accepts in a request without allocating */
  RECEIVE_STAGING = 128,
  RECEIVE_DISCARD = 64 * 1024 /* size of the buffer through which dropped frames are read */
};

struct receive {
  struct flow *flow;
  struct framing framing;
  enum config_protocol protocol;
  struct frame_format format;
  struct frame_rate rate; /* used if the producer does not send one */
  bool held;              /* start no frame */
  bool begun;             /* in the middle of a frame */
  struct slot *filling;   /* slot of that frame; NULL: the frame is being discarded */
  size_t filled;          /* payload bytes of that frame so far */
  int64_t read_began;     /* start of the read whose bytes are being processed: arrival time of a frame that begins there */
  int64_t since;          /* when the frame or the y4m header began; 0: in neither */
  uint64_t sequence;      /* of the next frame */
  unsigned producer;      /* counts producers from 1 */
  /* Start of the producer, CLOCK_REALTIME in us. Unique among the producers of the pipeline. */
  uint64_t epoch;
  bool restart;          /* the next frame is the first of its producer */
  bool invalid;          /* the frame being filled is invalid, though all of its bytes will come */
  enum stranger foreign; /* raw: the other protocol that the producer's first bytes look like */
  char problem[PROTOCOL_PROBLEM];
  size_t wanted;                  /* bytes that the last vector has room for */
  size_t direct;                  /* of these, the bytes that go into slots or the discard buffer */
  bool discard_next;              /* the last vector was for a frame without a slot, even if one is free by now */
  bool one_by_one;                /* read only to the end of one frame, because the source paces itself */
  unsigned staged_at, staged_end; /* range of the bytes that were read behind a preamble and wait for a slot */
  unsigned char staging[RECEIVE_STAGING];
  unsigned char *discard;
  struct segment_entry *entries; /* index of a recording, or NULL */
  uint64_t entry_count;
  uint64_t rewound_at; /* number of the first frame since the file was last read from its start */
};

/* `discard` has RECEIVE_DISCARD bytes; NULL unless overload is drop-newest. The rate is unknown. */
void receive_init(struct receive *receive, struct flow *flow, enum config_protocol protocol, const struct frame_format *format,
                  unsigned char *discard);
/* A new producer begins: sequences start at 0, and stages reset their state. */
void receive_start(struct receive *receive);
/* The file is read again from its start: framing starts over, the sequence continues. */
void receive_rewind(struct receive *receive);
/* The time in ns between a recorded frame and the one before it; 0 for the first. */
int64_t receive_gap(const struct receive *receive, uint64_t sequence);

/* Sets where the next bytes go and returns the number of vectors. 0: nowhere now (no slot is free, or the session is paused).
 * -1: the staged bytes are malformed. */
int receive_vector(struct receive *receive, struct iovec vector[RECEIVE_VECTORS], int64_t now);
/* `count` bytes were read there, by a read that began and ended at these times. Returns false if they are malformed; `problem`
 * says how. */
bool receive_advance(struct receive *receive, size_t count, int64_t began, int64_t now);
/* The FREE slot holds a complete frame, described by `stamp`. Moves it to READY, or drops it as invalid. */
void receive_whole(struct receive *receive, struct slot *slot, const struct native_frame *stamp, int64_t now);
/* True if bytes of the next frames were read behind a preamble and wait for a slot. */
static inline bool receive_has_staged(const struct receive *receive) { return receive->staged_at < receive->staged_end; }
/* Raw: true if the producer's first frame is complete and begins like another protocol. That is no error, since any bytes may
 * be a frame. */
static inline bool receive_is_foreign(const struct receive *receive) {
  return receive->foreign != STRANGER_UNKNOWN && (receive->sequence > 1 || !receive->begun);
}
/* Takes the position in the producer's bytes from the previous process. Call after the slots were taken. Returns false if it is
 * not valid. */
bool receive_adopt(struct receive *receive, const struct receive *left);
/* The producer ended or is cut off. An unfinished frame gets this fate. Returns true if no frame was unfinished. */
bool receive_end(struct receive *receive, enum fate fate, int64_t now);

#endif
