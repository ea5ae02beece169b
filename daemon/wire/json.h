/*
 * A result as one line of JSON with named numbers, for readers that know nothing of frames.
 *
 * It depends on plain numbers only, not on frames or sinks. The maximum length of a line is known in advance, so a writer
 * allocates once. A number is an integer, or the shortest decimal form that is the same float32 when read. Infinities and NaN,
 * which JSON lacks, become null.
 */
#ifndef FRAMED_WIRE_JSON_H
#define FRAMED_WIRE_JSON_H

#include <stddef.h>
#include <stdint.h>

/* The meaning of a row of numbers. */
enum json_kind {
  JSON_STATS,   /* one row: minimum, maximum, mean, share counted, then the histogram */
  JSON_MOTION,  /* first row: boxes listed, groups found, share changed; other rows: x, y, width, height, changed pixels */
  JSON_CLASSES, /* class, score */
  JSON_BOXES    /* x, y, width, height, score, class; a score of 0 ends the rows */
};

/* The constant part of all lines of a sink. */
struct json_shape {
  const char *pipeline;
  enum json_kind kind;
  size_t rows, columns;
  const char *const *labels; /* names of the classes, or NULL */
  unsigned label_count;
};

/* The frame of a result. */
struct json_frame {
  uint64_t sequence;      /* number that the producer sent */
  uint64_t epoch, number; /* with the pipeline, the unique name of the frame */
  int64_t timestamp;
};

/* Bytes of the longest line with its newline. */
size_t json_most_bytes(const struct json_shape *shape);

/* Writes a line of rows * columns values into a buffer for the longest line. Returns its bytes; there is no terminator. */
size_t json_write_line(const struct json_shape *shape, const struct json_frame *frame, const float *values, char *line);

#endif
