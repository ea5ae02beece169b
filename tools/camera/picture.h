/* A decoded picture into a frame of fixed size and format: scaled with its aspect kept, centred, black around it. */
#ifndef FRAMED_TOOLS_CAMERA_PICTURE_H
#define FRAMED_TOOLS_CAMERA_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavutil/frame.h>

struct SwsContext;

/* The place of the picture in the frame. */
struct fit {
  unsigned x, y, width, height;
};

/* All of it even, as chroma planes need. `aspect` is that of one pixel; 0/1: square. */
struct fit picture_fit(unsigned from_width, unsigned from_height, AVRational aspect, unsigned width, unsigned height);

struct picture {
  unsigned width, height; /* of the frame */
  enum AVPixelFormat pixels;
  size_t bytes;   /* of the frame, its planes one behind the other without padding */
  struct fit fit; /* of the last picture */
  struct SwsContext *scaler;
  uint8_t *rows[4]; /* the scaled picture with aligned rows: the scaler writes past the end of rows */
  int row_bytes[4];
  unsigned rows_width, rows_height;
};

bool picture_open(struct picture *picture, unsigned width, unsigned height, enum AVPixelFormat pixels);
void picture_close(struct picture *picture);

/* Pictures may have another size each time. False: this one's format is not known here, or there is no memory. */
bool picture_write(struct picture *picture, const AVFrame *from, void *frame);

#endif
