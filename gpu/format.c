#include "gpu/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const pixel_format_names[PIXELS_COUNT] = {
    NULL, "gray", "rgb24", "bgr24", "nv12", "yuv420p", "yuyv422", "grayf32le",
};

const char *const element_type_names[ELEMENT_COUNT] = {"uint8", "float32", "float16", "int32", "int64"};

/* Sizes above this are never real, and below it no product of ours overflows. */
#define MAX_BYTES (UINT64_C(1) << 40)

struct frame_format format_image(enum pixel_format pixels, uint32_t width, uint32_t height) {
  return (struct frame_format){
      .pixels = pixels,
      .width = width,
      .height = height,
      .dtype = pixels == PIXELS_GRAYF32LE ? ELEMENT_FLOAT32 : ELEMENT_UINT8,
  };
}

struct frame_format format_tensor(enum element_type dtype, const uint64_t *shape, uint32_t rank) {
  struct frame_format format = {.pixels = PIXELS_NONE, .dtype = dtype, .rank = rank};
  memcpy(format.shape, shape, (rank < FORMAT_MAX_RANK ? rank : FORMAT_MAX_RANK) * sizeof *shape);
  return format;
}

size_t format_element_bytes(enum element_type dtype) {
  static const size_t bytes[ELEMENT_COUNT] = {1, 4, 2, 4, 8};
  return bytes[dtype];
}

static uint64_t image_samples(const struct frame_format *format) {
  uint64_t width = format->width;
  uint64_t height = format->height;
  uint64_t half_width = (width + 1) / 2;
  uint64_t half_height = (height + 1) / 2;
  switch (format->pixels) {
  case PIXELS_GRAY:
  case PIXELS_GRAYF32LE:
    return width * height;
  case PIXELS_RGB24:
  case PIXELS_BGR24:
    return width * height * 3;
  case PIXELS_NV12:
  case PIXELS_YUV420P:
    return width * height + 2 * half_width * half_height;
  case PIXELS_YUYV422:
    return half_width * 4 * height;
  case PIXELS_NONE:
  case PIXELS_COUNT:
    break;
  }
  return 0;
}

/* Number of elements, or 0 if a side is missing or the product is too large. */
static uint64_t tensor_samples(const struct frame_format *format) {
  if (format->rank == 0 || format->rank > FORMAT_MAX_RANK) {
    return 0;
  }
  uint64_t product = 1;
  for (uint32_t i = 0; i < format->rank; i++) {
    if (format->shape[i] == 0 || format->shape[i] > MAX_BYTES / product) {
      return 0;
    }
    product *= format->shape[i];
  }
  return product;
}

static uint64_t samples(const struct frame_format *format) {
  if (format->pixels == PIXELS_NONE) {
    return tensor_samples(format);
  }
  if (format->width == 0 || format->height == 0 || format->width > FORMAT_MAX_SIDE || format->height > FORMAT_MAX_SIDE) {
    return 0;
  }
  return image_samples(format);
}

bool format_bytes(const struct frame_format *format, size_t *bytes) {
  uint64_t count = samples(format);
  if (count == 0 || count > MAX_BYTES / format_element_bytes(format->dtype)) {
    return false;
  }
  *bytes = (size_t)(count * format_element_bytes(format->dtype));
  return true;
}

size_t format_samples(const struct frame_format *format) { return (size_t)samples(format); }

struct frame_view format_view(const struct frame_format *image) {
  return (struct frame_view){.width = image->width,
                             .height = image->height,
                             .picture_width = image->width,
                             .picture_height = image->height,
                             .scale_x = 1,
                             .scale_y = 1};
}

struct frame_view format_view_in(const struct frame_view *view, const struct frame_window *window, uint32_t width,
                                 uint32_t height) {
  if (view->width == 0 || view->height == 0) {
    return *view;
  }
  struct frame_view result = *view;
  double x = (double)view->scale_x * view->width / window->width;
  double y = (double)view->scale_y * view->height / window->height;
  result.width = width;
  result.height = height;
  result.scale_x = (float)x;
  result.scale_y = (float)y;
  result.offset_x = (float)((double)view->offset_x - window->x * x);
  result.offset_y = (float)((double)view->offset_y - window->y * y);
  return result;
}

bool format_equal(const struct frame_format *a, const struct frame_format *b) {
  if (a->pixels != b->pixels || a->dtype != b->dtype) {
    return false;
  }
  if (a->pixels != PIXELS_NONE) {
    return a->width == b->width && a->height == b->height;
  }
  return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

const char *format_describe(const struct frame_format *format, char text[FORMAT_TEXT]) {
  if (format->pixels != PIXELS_NONE) {
    snprintf(text, FORMAT_TEXT, "%s %" PRIu32 "x%" PRIu32, pixel_format_names[format->pixels], format->width, format->height);
    return text;
  }
  int length = snprintf(text, FORMAT_TEXT, "%s", element_type_names[format->dtype]);
  for (uint32_t i = 0; i < format->rank && length < FORMAT_TEXT; i++) {
    length += snprintf(text + length, (size_t)(FORMAT_TEXT - length), "%c%" PRIu64 "%s", i == 0 ? '[' : ',', format->shape[i],
                       i + 1 == format->rank ? "]" : "");
  }
  return text;
}
