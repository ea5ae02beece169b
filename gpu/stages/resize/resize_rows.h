/*
 * The loops of `resize` on the CPU: the table of columns, and the rows made with it.
 *
 * The table has an entry for each sample of an output row (for area: for each pixel), and lies in memory that the
 * caller gives; it is valid for one plane and one call.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_ROWS_H
#define FRAMED_GPU_STAGES_RESIZE_ROWS_H

#include "gpu/stages/resize/resize.h"

enum { RESIZE_TAPS = 4 /* longest span of area that has a weight for each sample in the table */ };

struct resize_columns {
  enum resize_filter filter;
  size_t count;            /* samples of a row of the window */
  int32_t *first;          /* sample of the source row */
  int32_t *second;         /* the other one (bilinear of floats), the last one (area) */
  uint32_t *weight;        /* of the other one (bilinear of bytes) */
  float *part;             /* the same for floats; of the first one (area) */
  float *tail;             /* of the last one (area) */
  float body;              /* of those between (area) */
  float *tap[RESIZE_TAPS]; /* instead of all these: of each sample from the first on (area of bytes, short spans) */
  uint32_t taps;           /* how many of them; 0: spans are too long */
};

/* Memory that resizing a plane takes: its table and a row of the source. */
size_t resize_columns_bytes(const struct resize_plane *plane);

/* Fills the table for a plane. Returns the rest of the memory, where rows of the source are mixed. */
void *resize_columns_make(struct resize_columns *columns, const struct resize_plane *plane, enum resize_filter filter,
                          bool floats, void *memory);

/* Row y of the window, from the plane's samples. `mixed` is what resize_columns_make() returned. */
void resize_row_of_bytes(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const uint8_t *in,
                         void *mixed, uint8_t *out);
void resize_row_of_floats(const struct resize_plane *plane, const struct resize_columns *columns, uint32_t y, const float *in,
                          void *mixed, float *out);

#endif
