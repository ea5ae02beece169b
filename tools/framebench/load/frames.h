/*
 * Frames as bytes of a connection: what a producer sends, and where frames end in what a reader gets.
 *
 * A frame that is sent begins with a stamp: a mark, the frame's number and a check of it. Where a pipeline leaves bytes as they
 * are, its results can be told apart by it; else they are counted, which is right as long as none is lost.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_FRAMES_H
#define FRAMED_FRAMEBENCH_LOAD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_STAMP = 24, LOAD_BATCH_BYTES = 256 << 10, LOAD_HEADER = 128 };

/* One direction of a connection. */
struct load_form {
  bool y4m;                 /* a header, and a line before each frame; else frames back to back */
  size_t frame_bytes;       /* without that line */
  char header[LOAD_HEADER]; /* of y4m, for who sends; ends with a line feed */
};

/* -- sending -------------------------------------------------------------------------------------------------------- */

/* Frames side by side in touched memory, so that many small ones go out in one write. Filled once. */
struct load_batch {
  unsigned char *memory;
  size_t stride;   /* bytes from frame to frame */
  unsigned frames; /* as many fit */
  size_t at;       /* where in a stride the frame begins */
  bool stamped;    /* frames are large enough for a stamp */
};

/* False without memory. */
bool load_batch_init(struct load_batch *batch, const struct load_form *form);
void load_batch_clear(struct load_batch *batch);
/* Stamps the first `count` frames with numbers from `first` on. */
void load_batch_stamp(struct load_batch *batch, uint64_t first, unsigned count);

/* -- receiving ------------------------------------------------------------------------------------------------------ */

/* Whether the first bytes of a frame are a stamp, and of which number. */
bool load_stamp_read(const unsigned char head[LOAD_STAMP], uint64_t *number);

struct load_parser { /* zero but for `form` before use */
  struct load_form form;
  size_t filled; /* bytes of the frame that has begun */
  unsigned char head[LOAD_STAMP];
  enum { LOAD_AT_HEADER, LOAD_AT_LINE, LOAD_AT_FRAME } at;
  bool broken; /* what comes is not y4m */
  size_t line_filled;
};

/* A frame has ended; `head` is its beginning, zeros after its end. */
typedef void load_parser_frame(void *context, const unsigned char head[LOAD_STAMP]);

/* Takes bytes in pieces of any size. */
void load_parser_feed(struct load_parser *parser, const unsigned char *bytes, size_t count, load_parser_frame *frame,
                      void *context);

#endif
