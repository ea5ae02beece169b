/*
 * Receiving: makes frames of a producer's bytes, in slots.
 *
 * A source asks where the next bytes go (receive_vector), puts them there, and says how many came (receive_advance). Payload
 * goes straight into the slot; only preambles, and what was read behind one by chance, pass through a small staging
 * buffer. Receiving decides at a frame's first byte whether it gets a slot, waits (`block`) or is dropped, and numbers
 * the frames. It never reads by itself and knows nothing of descriptors.
 */
#ifndef FRAMED_FRAME_RECEIVE_H
#define FRAMED_FRAME_RECEIVE_H

#include <sys/uio.h>

#include "daemon/frame/flow.h"
#include "daemon/wire/protocol.h"
#include "daemon/wire/segment.h"

enum {
  RECEIVE_VECTORS = 4, /* as many as libuv takes in a request without allocating */
  RECEIVE_STAGING = 128,
  RECEIVE_DISCARD = 64 * 1024 /* a dropped frame is read through a buffer of this size */
};

struct receive {
  struct flow *flow;
  struct framing framing;
  enum config_protocol protocol;
  struct frame_format format;
  struct frame_rate rate; /* of frames whose producer does not say it */
  bool held;              /* begin no frame */
  bool begun;             /* within a frame */
  struct slot *filling;   /* the slot of that frame, or NULL: it is being discarded */
  size_t filled;          /* payload bytes of that frame that have come */
  int64_t read_began;     /* of the read whose bytes are being taken: a frame that begins in it came no later */
  int64_t since;          /* when the frame, or the y4m header, began; 0: neither */
  uint64_t sequence;      /* of the next frame */
  unsigned producer;      /* counts them from 1 */
  uint64_t epoch; /* when the producer began, CLOCK_REALTIME in us: no other producer of the pipeline ever has the same */
  bool restart;   /* the next frame is the first of its producer */
  bool invalid;   /* the frame that is being filled is invalid, though all of its bytes will come */
  enum stranger foreign; /* raw: what the producer's bytes began like */
  char problem[PROTOCOL_PROBLEM];
  size_t wanted;                  /* bytes that the last vector has room for, */
  size_t direct;                  /* and those of them that lie in slots or the discard buffer */
  bool discard_next;              /* the last vector meant a frame that had no slot, whatever is free by now */
  bool one_by_one;                /* read no further than one frame at a time: the source paces itself */
  unsigned staged_at, staged_end; /* bytes that were read behind a preamble and wait for a slot */
  unsigned char staging[RECEIVE_STAGING];
  unsigned char *discard;
  struct segment_entry *entries; /* of a recording, or NULL */
  uint64_t entry_count;
  uint64_t rewound_at; /* the number of the first frame since the file was last begun */
};

/* `discard` has RECEIVE_DISCARD bytes; NULL unless overload is drop-newest. The rate is not known. */
void receive_init(struct receive *receive, struct flow *flow, enum config_protocol protocol, const struct frame_format *format,
                  unsigned char *discard);
/* A new producer begins: numbers start at 0, and the state of stages anew. */
void receive_start(struct receive *receive);
/* The producer's bytes start over, its frames go on: the file is read again from its beginning. */
void receive_rewind(struct receive *receive);
/* When a frame of the recording came after the one before it; 0 for the first. */
int64_t receive_gap(const struct receive *receive, uint64_t sequence);

/* Where the next bytes go; returns how many vectors, 0: nowhere now (no slot is free, or held), -1: malformed. */
int receive_vector(struct receive *receive, struct iovec vector[RECEIVE_VECTORS], int64_t now);
/* `count` bytes were put there, by a read that began and ended at these times. False: malformed; `problem` says how. */
bool receive_advance(struct receive *receive, size_t count, int64_t began, int64_t now);
/* A whole frame is in that slot, which is FREE, and its producer says this of it: it is READY now, or invalid. */
void receive_whole(struct receive *receive, struct slot *slot, const struct native_frame *stamp, int64_t now);
/* Whether bytes of the next frames were read behind a preamble, and wait for a slot. */
static inline bool receive_has_staged(const struct receive *receive) { return receive->staged_at < receive->staged_end; }
/* Raw: whether the producer's first frame is whole and began like another protocol. Any bytes may be a frame. */
static inline bool receive_is_foreign(const struct receive *receive) {
  return receive->foreign != STRANGER_UNKNOWN && (receive->sequence > 1 || !receive->begun);
}
/* Takes where a process before this one was in its producer's bytes; slots were taken before. False: it makes no sense. */
bool receive_adopt(struct receive *receive, const struct receive *left);
/* The producer ended or is cut off: an unfinished frame gets this fate. True if there was none. */
bool receive_end(struct receive *receive, enum fate fate, int64_t now);

#endif
