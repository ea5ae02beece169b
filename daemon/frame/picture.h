/*
 * A picture: a copy of one frame for somebody who watches a pipeline.
 *
 * The control loop requests a picture at a session's flow. The lane copies the next finished frame into it. Of large frames it
 * copies every n-th row, so that a lane never copies more than about PICTURE_MOST_BYTES. A worker converts the bytes later, so
 * the lane does nothing else. A picture has two holders; the last one frees it, and that is never the lane.
 */
#ifndef FRAMED_FRAME_PICTURE_H
#define FRAMED_FRAME_PICTURE_H

#include <stdatomic.h>

#include "gpu/format.h"

enum { PICTURE_MOST_BYTES = 8 * 1024 * 1024, PICTURE_PLANES = 3 };

enum picture_side { PICTURE_IN, PICTURE_OUT, PICTURE_SIDES };

enum picture_state {
  PICTURE_REQUESTED, /* the lane has not copied a frame yet */
  PICTURE_TAKEN,     /* a complete, private copy, owned by the requester */
  PICTURE_GONE       /* the session ended before a frame came */
};

struct picture_plane {
  size_t offset, row_bytes; /* in the frame */
  size_t at;                /* offset of the first row in `bytes` */
  unsigned rows;            /* number of rows that are kept: 0, step, 2 step and so on */
};

struct picture {
  _Atomic enum picture_state state;
  atomic_uint holders;
  struct frame_format format; /* of the copied frame */
  struct frame_format boxes;  /* of the result whose boxes are drawn into the picture, if its meaning is boxes */
  size_t boxes_at, boxes_bytes;
  bool is_result; /* the copied frame is the result and not the input */
  unsigned step;
  unsigned plane_count;
  struct picture_plane planes[PICTURE_PLANES];
  uint64_t sequence; /* of the copied frame */
  unsigned char bytes[];
};

/* Allocates a picture of the input or of the result. If the result is boxes, it copies the input and the boxes. NULL with a
 * reason: frames of that format cannot be shown. NULL without one: no memory. The caller holds it. */
struct picture *picture_new(const struct frame_format *input, const struct frame_format *output, enum picture_side side,
                            const char **reason);
/* Removes one holder. Accepts NULL; returns NULL. */
struct picture *picture_drop(struct picture *picture);

/* [lane] Copies the frame. From then on the lane does not touch the picture. */
void picture_take(struct picture *picture, const unsigned char *input, const unsigned char *output, uint64_t sequence);

#endif
