/*
 * Frames as bytes of a connection: encoding for the producer, and parsing for the reader.
 *
 * Each frame begins with a stamp: a mark, the frame's number and a check of the number. If the pipeline keeps these bytes, the
 * reader identifies each result. Otherwise it counts results, which is right as long as none is lost.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_FRAMES_H
#define FRAMED_FRAMEBENCH_LOAD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_STAMP = 24, LOAD_BATCH_BYTES = 256 << 10, LOAD_HEADER = 128 };

/* One direction of a connection. */
struct load_form {
  bool y4m;                 /* y4m: a header, and a line before each frame; otherwise frames back to back */
  size_t frame_bytes;       /* without that line */
  char header[LOAD_HEADER]; /* of y4m, for the sender; ends with a newline */
};

/* -- sending -------------------------------------------------------------------------------------------------------- */

/* Adjacent frames in pre-faulted memory, so that many small ones need one write. Filled once. */
struct load_batch {
  unsigned char *memory;
  size_t stride;   /* bytes from one frame to the next */
  unsigned frames; /* as many as fit */
  size_t at;       /* offset of the frame in its stride */
  bool stamped;    /* frames are large enough for a stamp */
};

/* False without memory. */
bool load_batch_init(struct load_batch *batch, const struct load_form *form);
void load_batch_clear(struct load_batch *batch);
/* Stamps the first `count` frames with numbers from `first` on. */
void load_batch_stamp(struct load_batch *batch, uint64_t first, unsigned count);

/* -- receiving ------------------------------------------------------------------------------------------------------ */

/* Whether the first bytes of a frame are a stamp, and its number. */
bool load_stamp_read(const unsigned char head[LOAD_STAMP], uint64_t *number);

struct load_parser { /* zero except `form` before use */
  struct load_form form;
  size_t filled; /* bytes of the current frame */
  unsigned char head[LOAD_STAMP];
  enum { LOAD_AT_HEADER, LOAD_AT_LINE, LOAD_AT_FRAME } at;
  bool broken; /* the data is not y4m */
  size_t line_filled;
};

/* Called at a frame's end; `head` is its beginning, padded with zeros. */
typedef void load_parser_frame(void *context, const unsigned char head[LOAD_STAMP]);

/* Parses bytes in pieces of any size. */
void load_parser_feed(struct load_parser *parser, const unsigned char *bytes, size_t count, load_parser_frame *frame,
                      void *context);

#endif
