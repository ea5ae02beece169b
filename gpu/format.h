/*
 * What one frame is made of: an image in a pixel format, or a tensor of a fixed shape.
 *
 * Every size in the project comes from format_bytes(), which refuses what overflows; a format that passed it
 * once may be multiplied without further checks. Images are packed without padding between rows, as
 * `ffmpeg -f rawvideo` writes them; chroma of odd sizes is rounded up.
 */
#ifndef FRAMED_GPU_FORMAT_H
#define FRAMED_GPU_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pixel_format {
  PIXELS_NONE, /* a tensor */
  PIXELS_GRAY,
  PIXELS_RGB24,
  PIXELS_BGR24,
  PIXELS_NV12,
  PIXELS_YUV420P,
  PIXELS_YUYV422,
  PIXELS_GRAYF32LE,
  PIXELS_COUNT
};

enum element_type { ELEMENT_UINT8, ELEMENT_FLOAT32, ELEMENT_FLOAT16, ELEMENT_INT32, ELEMENT_INT64, ELEMENT_COUNT };

/* What the numbers of a result say, for whoever writes them as text; given by the stage that makes them. */
enum frame_meaning {
  MEANING_NONE,
  MEANING_STATS,   /* of the stage stats */
  MEANING_MOTION,  /* of the stage motion, as boxes */
  MEANING_CLASSES, /* float32[k, 2]: class and score, best first */
  MEANING_BOXES    /* float32[n, 6]: x, y (upper left corner), width, height, score, class; unused rows, of score 0, last */
};

enum { FORMAT_MAX_RANK = 4, FORMAT_MAX_SIDE = 65536, FORMAT_TEXT = 64 };

/* How positions in a frame of `width` x `height` relate to the picture that came into the pipeline: a position there is
 * position * scale + offset. A tensor has that of the image it was made of. */
struct frame_view {
  uint32_t width, height; /* 0: unknown, as where a tensor came in */
  uint32_t picture_width, picture_height;
  float scale_x, scale_y, offset_x, offset_y;
};

/* Where an image of another size shows a frame. */
struct frame_window {
  uint32_t x, y, width, height;
};

struct parts;

struct frame_format {
  enum pixel_format pixels; /* PIXELS_NONE: `dtype`, `rank` and `shape` say what it is */
  uint32_t width, height;   /* pixels; 0 for a tensor */
  enum element_type dtype;  /* of a tensor; set for images too (type of one sample) */
  uint32_t rank;
  uint64_t shape[FORMAT_MAX_RANK];
  /* What follows is not compared by format_equal(). */
  enum frame_meaning meaning;
  struct frame_view view;
  const struct parts *parts; /* of a frame of several tensors, as long as the chain lives; NULL: it is one */
};

/* An image or tensor format; dtype is derived from `pixels`. Sizes are checked by format_bytes(). */
struct frame_format format_image(enum pixel_format pixels, uint32_t width, uint32_t height);
struct frame_format format_tensor(enum element_type dtype, const uint64_t *shape, uint32_t rank);

/* Bytes of one frame. False if a side is 0 or over FORMAT_MAX_SIDE, or if the product leaves 1 TiB. */
bool format_bytes(const struct frame_format *format, size_t *bytes);

/* Bytes of one element. */
size_t format_element_bytes(enum element_type dtype);

/* Number of samples (elements of type dtype) in one frame, chroma included. */
size_t format_samples(const struct frame_format *format);

/* The view of an untouched image; and of one of `width` x `height` that shows what `view` is of in a window. */
struct frame_view format_view(const struct frame_format *image);
struct frame_view format_view_in(const struct frame_view *view, const struct frame_window *window, uint32_t width,
                                 uint32_t height);

bool format_equal(const struct frame_format *a, const struct frame_format *b);

/* "gray 640x480" or "float32[3,480,640]"; always terminated. Returns text. */
const char *format_describe(const struct frame_format *format, char text[FORMAT_TEXT]);

/* Names as ffmpeg and numpy have them; indexes are the enums, [0] of the pixel formats is NULL. */
extern const char *const pixel_format_names[PIXELS_COUNT];
extern const char *const element_type_names[ELEMENT_COUNT];

#endif
