/*
 * convert: descriptor and CPU loop.
 *
 * A frame is worked through in tiles of two rows, small enough for the first-level cache: load() gives the tile as
 * planes (red, green, blue | luma, Cb, Cr | gray), translate() turns them into the planes of the other family, and
 * store() interleaves them where the output format does. Planar formats are read and written in place.
 */
#include "gpu/stages/convert/convert_rows.h"
#include "gpu/stages/prepare.h"

#include <math.h>

enum family { GRAY, RGB, YUV };

/* -- constants --------------------------------------------------------------------------------------------------- */

static int16_t coefficient(double value) { return (int16_t)lrint(value * 8192); }

/* The weights of a row sum to that of the whole, so that white stays white and gray has no colour. */
static void set_weights(int16_t weights[3], double red, double green, double blue) {
  weights[0] = coefficient(red);
  weights[2] = coefficient(blue);
  weights[1] = (int16_t)(coefficient(red + green + blue) - weights[0] - weights[2]);
}

static struct convert_constants make_constants(enum convert_matrix matrix, enum convert_range range) {
  bool bt709 = matrix == CONVERT_BT709;
  bool full = range == CONVERT_FULL;
  double red = bt709 ? 0.2126 : 0.299;
  double blue = bt709 ? 0.0722 : 0.114;
  double green = 1 - red - blue;
  double luma = full ? 1 : 219.0 / 255;
  double chroma = full ? 1 : 224.0 / 255;
  double cb = chroma / (2 * (1 - blue));
  double cr = chroma / (2 * (1 - red));
  struct convert_constants constants = {
      .compress = coefficient(luma),
      .expand = coefficient(1 / luma),
      .red_cr = coefficient(1 / cr),
      .blue_cb = coefficient(1 / cb),
      .green_cb = coefficient(blue / green / cb),
      .green_cr = coefficient(red / green / cr),
      .black = full ? 0 : 16,
  };
  set_weights(constants.gray, red, green, blue);
  set_weights(constants.luma, red * luma, green * luma, blue * luma);
  set_weights(constants.cb, -red * cb, -green * cb, (1 - blue) * cb);
  set_weights(constants.cr, (1 - red) * cr, -green * cr, -blue * cr);
  return constants;
}

static enum pixel_format target(const struct stage_value *value) {
  return (enum pixel_format)(PIXELS_GRAY + (int)value->numbers[0]);
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->input.pixels == PIXELS_NONE) {
    return stage_refuse(plan, problem, "an image", "put `convert` before the stage that makes a tensor of it");
  }
  plan->output = format_image(target(&values[CONVERT_TO]), plan->input.width, plan->input.height);
  struct convert_constants constants = make_constants((enum convert_matrix)values[CONVERT_MATRIX].numbers[0],
                                                      (enum convert_range)values[CONVERT_RANGE].numbers[0]);
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_fill_sizes(plan, problem);
}

/* -- tiles ------------------------------------------------------------------------------------------------------- */

static enum family family(enum pixel_format pixels) {
  switch (pixels) {
  case PIXELS_RGB24:
  case PIXELS_BGR24:
    return RGB;
  case PIXELS_NV12:
  case PIXELS_YUV420P:
  case PIXELS_YUYV422:
    return YUV;
  default:
    return GRAY;
  }
}

/* Where a tile is. `rows` is 1 at the bottom of an odd height. */
struct span {
  size_t x, y, columns, pairs, rows;
};

/* A tile as planes, two rows each, which point into the frame where the format is planar, and into `space` elsewhere.
 * In a source, row[][1] is row[][0] where both rows share their chroma or the second is missing; in a result, rows that
 * share their chroma have it in row[][0] alone. */
struct source {
  const uint8_t *row[3][2];
  uint8_t space[3][2][CONVERT_TILE];
};

struct result {
  uint8_t *row[3][2];
  uint8_t space[3][2][CONVERT_TILE];
};

/* Geometry of one frame. */
struct image {
  enum pixel_format pixels;
  size_t width, height, half_width, half_height, pixel_bytes, row_bytes;
};

static size_t pixel_bytes(enum pixel_format pixels) {
  switch (pixels) {
  case PIXELS_RGB24:
  case PIXELS_BGR24:
    return 3;
  case PIXELS_YUYV422:
    return 2;
  case PIXELS_GRAYF32LE:
    return sizeof(float);
  default:
    return 1;
  }
}

static struct image image_of(const struct frame_format *format) {
  struct image image = {
      .pixels = format->pixels,
      .width = format->width,
      .height = format->height,
      .half_width = ((size_t)format->width + 1) / 2,
      .half_height = ((size_t)format->height + 1) / 2,
      .pixel_bytes = pixel_bytes(format->pixels),
  };
  image.row_bytes = image.pixel_bytes * (image.pixels == PIXELS_YUYV422 ? image.half_width * 2 : image.width);
  return image;
}

/* Where one row of the tile begins in the frame's first plane. */
static size_t row_offset(const struct image *image, const struct span *at, size_t row) {
  return (at->y + row) * image->row_bytes + at->x * image->pixel_bytes;
}

/* Where the tile's row of chroma begins: plane 0 or 1 of yuv420p, or plane 0, with two samples a pair, of nv12. */
static size_t chroma_offset(const struct image *image, const struct span *at, size_t plane) {
  size_t samples = image->pixels == PIXELS_NV12 ? 2 : 1;
  return image->width * image->height + plane * image->half_width * image->half_height +
         (at->y / 2 * image->half_width + at->x / 2) * samples;
}

/* -- from the frame to planes ------------------------------------------------------------------------------------ */

static void load_row(const struct image *image, const uint8_t *in, const struct span *at, struct source *tile, size_t row) {
  uint8_t *space[3] = {tile->space[0][row], tile->space[1][row], tile->space[2][row]};
  size_t first = image->pixels == PIXELS_BGR24 ? 2 : 0;
  for (size_t i = 0; i < 3; i++) {
    tile->row[i][row] = space[i];
  }
  switch (image->pixels) {
  case PIXELS_RGB24:
  case PIXELS_BGR24:
    convert_split3(in, at->columns, space[first], space[1], space[2 - first]);
    for (size_t i = 0; i < 3; i++) {
      space[i][2 * at->pairs - 1] = space[i][at->columns - 1];
    }
    break;
  case PIXELS_YUYV422:
    convert_split_yuyv(in, at->pairs, space[0], space[1], space[2]);
    break;
  case PIXELS_GRAYF32LE:
    convert_row_float_to_gray((const float *)(const void *)in, at->columns, space[0]);
    break;
  default:
    tile->row[0][row] = in;
    break;
  }
}

static void load_chroma(const struct image *image, const uint8_t *in, const struct span *at, struct source *tile) {
  if (image->pixels == PIXELS_YUV420P) {
    tile->row[1][0] = in + chroma_offset(image, at, 0);
    tile->row[2][0] = in + chroma_offset(image, at, 1);
  } else if (image->pixels == PIXELS_NV12) {
    convert_split2(in + chroma_offset(image, at, 0), at->pairs, tile->space[1][0], tile->space[2][0]);
  } else {
    return;
  }
  tile->row[1][1] = tile->row[1][0];
  tile->row[2][1] = tile->row[2][0];
}

static void load(const struct image *image, const uint8_t *in, const struct span *at, struct source *tile) {
  for (size_t row = 0; row < at->rows; row++) {
    load_row(image, in + row_offset(image, at, row), at, tile, row);
  }
  for (size_t i = 0; at->rows == 1 && i < 3; i++) {
    tile->row[i][1] = tile->row[i][0];
  }
  load_chroma(image, in, at, tile);
}

/* -- from planes to planes --------------------------------------------------------------------------------------- */

static struct convert_colors colors(const struct source *tile, size_t row) {
  return (struct convert_colors){tile->row[0][row], tile->row[1][row], tile->row[2][row]};
}

static void to_float(const struct convert_constants *k, enum family from, const struct source *in, size_t row, size_t columns,
                     float *out) {
  if (from == RGB) {
    convert_row_rgb_to_float(k, colors(in, row), columns, out);
  } else if (from == YUV) {
    convert_row_luma_to_float(k, in->row[0][row], columns, out);
  } else {
    convert_row_gray_to_float(in->row[0][row], columns, out);
  }
}

static void to_gray(const struct convert_constants *k, enum family from, const struct source *in, size_t row, size_t columns,
                    uint8_t *out) {
  if (from == RGB) {
    convert_row_rgb_to_gray(k, colors(in, row), columns, out);
  } else if (from == YUV) {
    convert_row_luma_to_gray(k, in->row[0][row], columns, out);
  } else {
    memcpy(out, in->row[0][row], columns);
  }
}

static void to_rgb(const struct convert_constants *k, enum family from, const struct source *in, size_t row,
                   const struct span *at, struct result *out) {
  if (from == YUV) {
    convert_row_yuv_to_rgb(k, in->row[0][row], in->row[1][row], in->row[2][row], at->columns, out->row[0][row],
                           out->row[1][row], out->row[2][row]);
    return;
  }
  for (size_t i = 0; i < 3; i++) {
    memcpy(out->row[i][row], in->row[from == RGB ? i : 0][row], at->columns);
  }
}

static void to_luma(const struct convert_constants *k, enum family from, const struct source *in, size_t row, size_t columns,
                    uint8_t *out) {
  if (from == RGB) {
    convert_row_rgb_to_luma(k, colors(in, row), columns, out);
  } else if (from == YUV) {
    memcpy(out, in->row[0][row], columns);
  } else {
    convert_row_gray_to_luma(k, in->row[0][row], columns, out);
  }
}

/* Chroma of one row of the result from rows `top` and `bottom` of the source, which may be one and the same. */
static void to_chroma(const struct convert_constants *k, enum family from, const struct source *in, size_t top, size_t bottom,
                      size_t pairs, uint8_t *cb, uint8_t *cr) {
  if (from == RGB) {
    convert_row_rgb_to_chroma(k, colors(in, top), colors(in, bottom), pairs, cb, cr);
  } else if (from == YUV) {
    convert_row_average(in->row[1][top], in->row[1][bottom], pairs, cb);
    convert_row_average(in->row[2][top], in->row[2][bottom], pairs, cr);
  } else {
    memset(cb, 128, pairs);
    memset(cr, 128, pairs);
  }
}

static void to_yuv(const struct convert_constants *k, enum family from, const struct source *in, const struct span *at,
                   bool shared, struct result *out) {
  for (size_t row = 0; row < at->rows; row++) {
    to_luma(k, from, in, row, at->columns, out->row[0][row]);
    if (row == 0 || !shared) {
      to_chroma(k, from, in, row, shared ? 1 : row, at->pairs, out->row[1][row], out->row[2][row]);
    }
  }
}

/* -- from planes to the frame ------------------------------------------------------------------------------------ */

static bool shares_chroma(const struct image *image) { return image->pixels == PIXELS_NV12 || image->pixels == PIXELS_YUV420P; }

/* Points the rows of the result into the frame where it is planar, so that store() has nothing to do there. */
static void aim(const struct image *image, uint8_t *out, const struct span *at, struct result *tile) {
  bool planar = family(image->pixels) == GRAY || shares_chroma(image);
  for (size_t row = 0; row < at->rows; row++) {
    for (size_t i = 0; i < 3; i++) {
      tile->row[i][row] = tile->space[i][row];
    }
    if (planar) {
      tile->row[0][row] = out + row_offset(image, at, row);
    }
  }
  if (image->pixels == PIXELS_YUV420P) {
    tile->row[1][0] = out + chroma_offset(image, at, 0);
    tile->row[2][0] = out + chroma_offset(image, at, 1);
  }
}

static void store(const struct image *image, uint8_t *out, const struct span *at, struct result *tile) {
  size_t first = image->pixels == PIXELS_BGR24 ? 2 : 0;
  if (image->pixels == PIXELS_NV12) {
    convert_join2(tile->row[1][0], tile->row[2][0], at->pairs, out + chroma_offset(image, at, 0));
    return;
  }
  for (size_t row = 0; row < at->rows; row++) {
    uint8_t *target_row = out + row_offset(image, at, row);
    if (image->pixels == PIXELS_YUYV422) {
      tile->row[0][row][2 * at->pairs - 1] = tile->row[0][row][at->columns - 1];
      convert_join_yuyv(tile->row[0][row], tile->row[1][row], tile->row[2][row], at->pairs, target_row);
    } else if (family(image->pixels) == RGB) {
      convert_join3(tile->row[first][row], tile->row[1][row], tile->row[2 - first][row], at->columns, target_row);
    }
  }
}

/* -- the stage --------------------------------------------------------------------------------------------------- */

static void translate(const struct convert_constants *k, enum family from, const struct source *in, const struct image *image,
                      const struct span *at, struct result *out) {
  if (family(image->pixels) == YUV) {
    to_yuv(k, from, in, at, shares_chroma(image), out);
    return;
  }
  for (size_t row = 0; row < at->rows; row++) {
    if (image->pixels == PIXELS_GRAYF32LE) {
      to_float(k, from, in, row, at->columns, (float *)(void *)out->row[0][row]);
    } else if (image->pixels == PIXELS_GRAY) {
      to_gray(k, from, in, row, at->columns, out->row[0][row]);
    } else {
      to_rgb(k, from, in, row, at, out);
    }
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  if (plan->input.pixels == plan->output.pixels) {
    memcpy(call->output, call->input, plan->input_bytes);
    return;
  }
  struct convert_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  struct image in = image_of(&plan->input);
  struct image out = image_of(&plan->output);
  struct source source;
  struct result result;
  for (size_t y = 0; y < in.height; y += 2) {
    for (size_t x = 0; x < in.width; x += CONVERT_TILE) {
      size_t columns = in.width - x < CONVERT_TILE ? in.width - x : CONVERT_TILE;
      struct span at = {x, y, columns, (columns + 1) / 2, in.height - y < 2 ? 1 : 2};
      load(&in, call->input, &at, &source);
      aim(&out, call->output, &at, &result);
      translate(&constants, family(in.pixels), &source, &out, &at, &result);
      store(&out, call->output, &at, &result);
    }
  }
}

const struct stage_descriptor convert_stage = {
    .about = &convert_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(convert_enqueue)};
