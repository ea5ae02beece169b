/*
 * A result as one line of JSON, for readers who know nothing of frames: what the numbers of a result mean, written out.
 *
 * It makes bytes of plain numbers and knows nothing of frames and sinks. How long a line can get is known before the first one,
 * so that whoever writes lines allocates once. Numbers are the shortest that give the same float32 again when they are read,
 * or integers; infinities and NaN, which JSON does not have, are null.
 */
#ifndef FRAMED_WIRE_JSON_H
#define FRAMED_WIRE_JSON_H

#include <stddef.h>
#include <stdint.h>

/* What a row of numbers says. */
enum json_kind {
  JSON_STATS,   /* one row: minimum, maximum, mean, share counted, then the histogram */
  JSON_MOTION,  /* first row: boxes listed, groups found, share changed; the others: x, y, width, height, changed pixels */
  JSON_CLASSES, /* class, score */
  JSON_BOXES    /* x, y, width, height, score, class; from the first score of 0 on, rows are not used */
};

/* What all lines of a sink have in common. */
struct json_shape {
  const char *pipeline;
  enum json_kind kind;
  size_t rows, columns;
  const char *const *labels; /* names of the classes, or NULL */
  unsigned label_count;
};

/* Whose result it is. */
struct json_frame {
  uint64_t sequence;      /* the number that the producer gave it */
  uint64_t epoch, number; /* which name it, with the pipeline, for ever */
  int64_t timestamp;
};

/* Bytes of the longest line, its newline included. */
size_t json_most_bytes(const struct json_shape *shape);

/* Writes a line of rows * columns values, into room for the longest one. Returns its bytes; there is no zero behind them. */
size_t json_write_line(const struct json_shape *shape, const struct json_frame *frame, const float *values, char *line);

#endif
