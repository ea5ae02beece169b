/*
 * A picture: what one frame looks like, for whoever watches a pipeline.
 *
 * The control loop hangs an empty picture at a session's flow; the lane copies the next finished frame into it, as rows that
 * are left out where frames are large, so that no lane copies more than PICTURE_MOST_BYTES. Nothing else happens on the lane:
 * what the bytes mean is for a worker. A picture is freed by the last of its two holders, never by the lane.
 */
#ifndef FRAMED_FRAME_PICTURE_H
#define FRAMED_FRAME_PICTURE_H

#include <stdatomic.h>

#include "gpu/format.h"

enum { PICTURE_MOST_BYTES = 8 * 1024 * 1024, PICTURE_PLANES = 3 };

enum picture_side { PICTURE_IN, PICTURE_OUT, PICTURE_SIDES };

enum picture_state {
  PICTURE_REQUESTED, /* the lane has not come to it */
  PICTURE_TAKEN, /* it is whole, and its holder's alone */
  PICTURE_GONE   /* its session ended before a frame came */
};

struct picture_plane {
  size_t offset, row_bytes; /* in the frame */
  size_t at;                /* of the first row in `bytes` */
  unsigned rows;            /* that are kept: rows 0, step, 2 step and so on */
};

struct picture {
  _Atomic enum picture_state state;
  atomic_uint holders;
  struct frame_format format; /* of the frame that is shown */
  struct frame_format boxes;  /* of the result that is drawn into it, if its meaning is boxes */
  size_t boxes_at, boxes_bytes;
  bool is_result; /* the frame that is shown is the result, and not what came in */
  unsigned step;
  unsigned plane_count;
  struct picture_plane planes[PICTURE_PLANES];
  uint64_t sequence; /* of the frame that was taken */
  unsigned char bytes[];
};

/* What came in, or the result; where that is boxes, what came in with the boxes. NULL with a reason: frames of that format are
 * no pictures; without one: no memory. Held by the caller. */
struct picture *picture_new(const struct frame_format *input, const struct frame_format *output, enum picture_side side,
                            const char **reason);
/* One holder less; NULL is fine; returns NULL. */
struct picture *picture_drop(struct picture *picture);

/* [lane] Copies the frame; the picture is no longer the lane's. */
void picture_take(struct picture *picture, const unsigned char *input, const unsigned char *output, uint64_t sequence);

#endif
