#include "daemon/status/picture_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

enum { QUALITY = 80, COLOURS = 3, BOX_COLUMNS = 6, MOTION_COLUMNS = 5 };

/* -- numbers -------------------------------------------------------------------------------------------------------- */

/* What becomes black and what white. */
struct levels {
  double black, white;
};

static double half_float(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double fraction = bits & 1023;
  double size = exponent == 0 ? ldexp(fraction, -24) : exponent == 31 ? NAN : ldexp(fraction + 1024, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

static double number_at(const unsigned char *row, enum element_type type, size_t index) {
  union {
    float f;
    uint16_t h;
    int32_t i;
    int64_t l;
  } value;
  const size_t bytes = format_element_bytes(type);
  memcpy(&value, row + index * bytes, type == ELEMENT_UINT8 ? 0 : bytes);
  switch (type) {
  case ELEMENT_FLOAT32:
    return value.f;
  case ELEMENT_FLOAT16:
    return half_float(value.h);
  case ELEMENT_INT32:
    return value.i;
  case ELEMENT_INT64:
    return (double)value.l;
  default:
    return row[index];
  }
}

/* The range of all numbers that are finite; images keep that of their format. */
static struct levels find_levels(const struct picture *picture) {
  const struct frame_format *format = &picture->format;
  struct levels levels = {HUGE_VAL, -HUGE_VAL};
  if (format->pixels != PIXELS_NONE) {
    return (struct levels){0, 1};
  }
  for (unsigned i = 0; i < picture->plane_count; i++) {
    const struct picture_plane *plane = &picture->planes[i];
    for (size_t row = 0; row < plane->rows; row++) {
      for (size_t x = 0; x < format->width; x++) {
        double number = number_at(picture->bytes + plane->at + row * plane->row_bytes, format->dtype, x);
        levels.black = isfinite(number) && number < levels.black ? number : levels.black;
        levels.white = isfinite(number) && number > levels.white ? number : levels.white;
      }
    }
  }
  return levels.black < levels.white ? levels : (struct levels){0, 1};
}

static unsigned char shade(double number, struct levels levels) {
  double level = (number - levels.black) / (levels.white - levels.black) * 255;
  return level >= 255 ? 255 : level > 0 ? (unsigned char)level : 0;
}

static unsigned char clamp(double level) {
  double above = level + 0.5; /* what is cut off rounds it */
  return above >= 256 ? 255 : above > 0 ? (unsigned char)above : 0;
}

/* ITU-R BT.709 with the range of video: 16 to 235, and 16 to 240 around 128. */
static void set_yuv(unsigned char *rgb, int y, int u, int v) {
  double luma = 255.0 / 219 * (y - 16);
  double blue = 255.0 / 224 * (u - 128);
  double red = 255.0 / 224 * (v - 128);
  rgb[0] = clamp(luma + 1.5748 * red);
  rgb[1] = clamp(luma - 0.1873 * blue - 0.4681 * red);
  rgb[2] = clamp(luma + 1.8556 * blue);
}

/* -- pixels --------------------------------------------------------------------------------------------------------- */

static const unsigned char *row_of(const struct picture *picture, unsigned plane, size_t row) {
  const struct picture_plane *of = &picture->planes[plane];
  return picture->bytes + of->at + (row < of->rows ? row : of->rows - 1) * of->row_bytes;
}

/* The pixel in column `x` of the kept row `row`. Rows of chroma are left out as those of luma are, so half the row is theirs.
 */
static void set_pixel(const struct picture *picture, struct levels levels, size_t x, size_t row, unsigned char *rgb) {
  const unsigned char *first = row_of(picture, 0, row);
  switch (picture->format.pixels) {
  case PIXELS_GRAY:
    memset(rgb, first[x], COLOURS);
    break;
  case PIXELS_RGB24:
    memcpy(rgb, first + COLOURS * x, COLOURS);
    break;
  case PIXELS_BGR24:
    rgb[0] = first[COLOURS * x + 2];
    rgb[1] = first[COLOURS * x + 1];
    rgb[2] = first[COLOURS * x];
    break;
  case PIXELS_NV12: {
    const unsigned char *chroma = row_of(picture, 1, row / 2) + x / 2 * 2;
    set_yuv(rgb, first[x], chroma[0], chroma[1]);
    break;
  }
  case PIXELS_YUV420P:
    set_yuv(rgb, first[x], row_of(picture, 1, row / 2)[x / 2], row_of(picture, 2, row / 2)[x / 2]);
    break;
  case PIXELS_YUYV422: {
    const unsigned char *pair = first + x / 2 * 4;
    set_yuv(rgb, pair[x % 2 * 2], pair[1], pair[3]);
    break;
  }
  default:
    for (unsigned colour = 0; colour < COLOURS; colour++) {
      const unsigned char *plane = row_of(picture, colour < picture->plane_count ? colour : 0, row);
      rgb[colour] = shade(number_at(plane, picture->format.dtype, x), levels);
    }
  }
}

/* -- boxes ---------------------------------------------------------------------------------------------------------- */

struct canvas {
  unsigned char *rgb;
  unsigned width, height;
};

static void fill(const struct canvas *canvas, double left, double top, double right, double bottom) {
  long from_x = (long)fmin(fmax(left, 0), canvas->width);
  long to_x = (long)fmin(fmax(right, 0), canvas->width);
  long to_y = (long)fmin(fmax(bottom, 0), canvas->height);
  for (long y = (long)fmin(fmax(top, 0), canvas->height); y < to_y; y++) {
    for (long x = from_x; x < to_x; x++) {
      memcpy(canvas->rgb + COLOURS * ((size_t)y * canvas->width + (size_t)x), "\x20\xff\x40", COLOURS);
    }
  }
}

static void draw_frame(const struct canvas *canvas, const float *box, double scale_x, double scale_y) {
  double left = box[0] * scale_x;
  double top = box[1] * scale_y;
  double right = left + box[2] * scale_x;
  double bottom = top + box[3] * scale_y;
  const double line = 2;
  fill(canvas, left, top, right, top + line);
  fill(canvas, left, bottom - line, right, bottom);
  fill(canvas, left, top, left + line, bottom);
  fill(canvas, right - line, top, right, bottom);
}

static void draw_boxes(const struct picture *picture, const struct canvas *canvas) {
  bool motion = picture->boxes.meaning == MEANING_MOTION;
  size_t columns = motion ? MOTION_COLUMNS : BOX_COLUMNS;
  double scale_x = (double)canvas->width / picture->format.width;
  double scale_y = (double)canvas->height / picture->format.height;
  float row[BOX_COLUMNS];
  for (size_t i = motion ? 1 : 0; (i + 1) * columns * sizeof *row <= picture->boxes_bytes; i++) {
    memcpy(row, picture->bytes + picture->boxes_at + i * columns * sizeof *row, columns * sizeof *row);
    if (row[4] > 0) { /* its score, or how many pixels changed; 0: there is no box in this row */
      draw_frame(canvas, row, scale_x, scale_y);
    }
  }
}

/* -- the whole ------------------------------------------------------------------------------------------------------ */

void picture_render(const struct picture *picture, unsigned width, unsigned height, unsigned char *rgb) {
  const struct levels levels = find_levels(picture);
  const struct canvas canvas = {rgb, width, height};
  for (unsigned y = 0; y < height; y++) {
    size_t row = (size_t)y * picture->planes[0].rows / height;
    for (unsigned x = 0; x < width; x++) {
      size_t column = (size_t)x * picture->format.width / width;
      set_pixel(picture, levels, column, row, rgb + COLOURS * ((size_t)y * width + x));
    }
  }
  draw_boxes(picture, &canvas);
}

void picture_heat(unsigned char *rgb, size_t pixels) {
  static const unsigned char stops[][COLOURS] = {{0, 0, 0}, {90, 15, 110}, {190, 55, 85}, {250, 140, 10}, {255, 255, 165}, {0}};
  enum { STEPS = sizeof stops / sizeof stops[0] - 2 };
  for (size_t i = 0; i < pixels; i++, rgb += COLOURS) {
    int at = rgb[0] * STEPS, stop = at / 255, rest = at % 255;
    for (int colour = 0; colour < COLOURS; colour++) {
      rgb[colour] = (unsigned char)((stops[stop][colour] * (255 - rest) + stops[stop + 1][colour] * rest) / 255);
    }
  }
}

static unsigned char *encode(unsigned char *rgb, unsigned width, unsigned height, size_t *length) {
  unsigned char *file = NULL;
  unsigned long room = tjBufSize((int)width, (int)height, TJSAMP_420);
  tjhandle encoder = tjInitCompress();
  file = encoder && room != (unsigned long)-1 ? malloc(room) : NULL;
  if (file && tjCompress2(encoder, rgb, (int)width, 0, (int)height, TJPF_RGB, &file, &room, TJSAMP_420, QUALITY,
                          TJFLAG_NOREALLOC | TJFLAG_FASTDCT) != 0) {
    free(file);
    file = NULL;
  }
  if (encoder) {
    tjDestroy(encoder);
  }
  *length = room;
  return file;
}

unsigned char *picture_file(const struct picture *picture, unsigned width, bool heat, size_t *length) {
  const struct frame_format *format = &picture->format;
  if (width == 0 || width > format->width) {
    width = format->width;
  }
  uint64_t height = (uint64_t)format->height * width / format->width;
  height = height > 0 ? height : 1;
  unsigned char *rgb = malloc((size_t)width * height * COLOURS);
  if (!rgb) {
    return NULL;
  }
  picture_render(picture, width, (unsigned)height, rgb);
  if (heat && format->pixels == PIXELS_NONE && picture->plane_count == 1 && picture->boxes_bytes == 0) {
    picture_heat(rgb, (size_t)width * height);
  }
  unsigned char *file = encode(rgb, width, (unsigned)height, length);
  free(rgb);
  return file;
}
