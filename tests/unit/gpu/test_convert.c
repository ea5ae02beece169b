/* convert, against the formulas of BT.601 and BT.709 in double precision, for every pair of formats. */
#include "gpu/stages/convert/convert.h"
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { MATRIX_BT601, MATRIX_BT709, RANGE_LIMITED = 0, RANGE_FULL };

/* As the parameter `to` lists them. */
static const enum pixel_format formats[] = {PIXELS_GRAY,    PIXELS_RGB24,   PIXELS_BGR24,    PIXELS_NV12,
                                            PIXELS_YUV420P, PIXELS_YUYV422, PIXELS_GRAYF32LE};
enum { FORMATS = sizeof formats / sizeof formats[0] };

struct picture {
  struct frame_format format;
  const uint8_t *bytes;
  bool bt709, full;
};

/* -- where samples are, written down once more and without regard to speed ---------------------------------------- */

static size_t width_of(const struct picture *picture) { return picture->format.width; }
static size_t half_width_of(const struct picture *picture) { return (width_of(picture) + 1) / 2; }

static double luma_at(const struct picture *picture, size_t x, size_t y) {
  if (picture->format.pixels == PIXELS_YUYV422) {
    return picture->bytes[(y * half_width_of(picture) + x / 2) * 4 + x % 2 * 2];
  }
  return picture->bytes[y * width_of(picture) + x];
}

/* The chroma sample that covers a pixel: 0 is Cb, 1 is Cr. */
static double chroma_at(const struct picture *picture, size_t which, size_t x, size_t y) {
  size_t half_width = half_width_of(picture);
  size_t half_height = ((size_t)picture->format.height + 1) / 2;
  const uint8_t *chroma = picture->bytes + width_of(picture) * picture->format.height;
  switch (picture->format.pixels) {
  case PIXELS_YUYV422:
    return picture->bytes[(y * half_width + x / 2) * 4 + 1 + which * 2];
  case PIXELS_NV12:
    return chroma[(y / 2 * half_width + x / 2) * 2 + which];
  default:
    return chroma[which * half_width * half_height + y / 2 * half_width + x / 2];
  }
}

static bool is_rgb(enum pixel_format pixels) { return pixels == PIXELS_RGB24 || pixels == PIXELS_BGR24; }
static bool is_gray(enum pixel_format pixels) { return pixels == PIXELS_GRAY || pixels == PIXELS_GRAYF32LE; }
static bool is_yuv(enum pixel_format pixels) { return !is_rgb(pixels) && !is_gray(pixels); }

static double gray_at(const struct picture *picture, size_t x, size_t y) {
  size_t index = y * width_of(picture) + x;
  return picture->format.pixels == PIXELS_GRAYF32LE ? 255.0 * ((const float *)(const void *)picture->bytes)[index]
                                                    : picture->bytes[index];
}

/* -- the formulas ------------------------------------------------------------------------------------------------- */

struct color {
  double red, green, blue;
};

static double limit(double level) { return fmin(fmax(level, 0), 255); }
static double red_weight(const struct picture *picture) { return picture->bt709 ? 0.2126 : 0.299; }
static double blue_weight(const struct picture *picture) { return picture->bt709 ? 0.0722 : 0.114; }
static double luma_gain(const struct picture *picture) { return picture->full ? 1 : 219.0 / 255; }
static double chroma_gain(const struct picture *picture) { return picture->full ? 1 : 224.0 / 255; }
static double black(const struct picture *picture) { return picture->full ? 0 : 16; }

static double weigh(const struct picture *picture, struct color color) {
  double red = red_weight(picture);
  double blue = blue_weight(picture);
  return red * color.red + (1 - red - blue) * color.green + blue * color.blue;
}

static struct color color_at(const struct picture *picture, size_t x, size_t y) {
  const uint8_t *bytes = picture->bytes + (y * width_of(picture) + x) * 3;
  if (picture->format.pixels == PIXELS_RGB24) {
    return (struct color){bytes[0], bytes[1], bytes[2]};
  }
  if (picture->format.pixels == PIXELS_BGR24) {
    return (struct color){bytes[2], bytes[1], bytes[0]};
  }
  if (is_gray(picture->format.pixels)) {
    double gray = gray_at(picture, x, y);
    return (struct color){gray, gray, gray};
  }
  double red = red_weight(picture);
  double blue = blue_weight(picture);
  double gray = (luma_at(picture, x, y) - black(picture)) / luma_gain(picture);
  double cb = (chroma_at(picture, 0, x, y) - 128) / chroma_gain(picture) * 2 * (1 - blue);
  double cr = (chroma_at(picture, 1, x, y) - 128) / chroma_gain(picture) * 2 * (1 - red);
  return (struct color){gray + cr, gray - (blue * cb + red * cr) / (1 - red - blue), gray + cb};
}

static double expected_gray(const struct picture *in, size_t x, size_t y) {
  if (is_yuv(in->format.pixels)) {
    return limit((luma_at(in, x, y) - black(in)) / luma_gain(in));
  }
  return weigh(in, color_at(in, x, y));
}

static double expected_luma(const struct picture *in, size_t x, size_t y) {
  if (is_yuv(in->format.pixels)) {
    return luma_at(in, x, y);
  }
  return black(in) + luma_gain(in) * expected_gray(in, x, y);
}

static double pixel_chroma(const struct picture *in, size_t which, size_t x, size_t y) {
  if (is_yuv(in->format.pixels)) {
    return chroma_at(in, which, x, y);
  }
  struct color color = color_at(in, x, y);
  double difference = (which == 0 ? color.blue : color.red) - weigh(in, color);
  return 128 + chroma_gain(in) * difference / (2 * (1 - (which == 0 ? blue_weight(in) : red_weight(in))));
}

/* The average over the pixels that one chroma sample of the output covers; the last ones stand in for missing ones. */
static double expected_chroma(const struct picture *in, const struct picture *out, size_t which, size_t x, size_t y) {
  size_t right = x + 1 < in->format.width ? x + 1 : x;
  size_t below = y + 1 < in->format.height && out->format.pixels != PIXELS_YUYV422 ? y + 1 : y;
  return (pixel_chroma(in, which, x, y) + pixel_chroma(in, which, right, y) + pixel_chroma(in, which, x, below) +
          pixel_chroma(in, which, right, below)) /
         4;
}

/* -- comparison --------------------------------------------------------------------------------------------------- */

static void close_to(double got, double exact, const struct picture *in, const struct picture *out, size_t x, size_t y) {
  /* Half a level is rounding; the rest is what products in 1/32 of a level lose. Floats are rounded to gray first. */
  double most = out->format.pixels == PIXELS_GRAYF32LE ? 0.1 : 0.6;
  if (in->format.pixels == PIXELS_GRAYF32LE && is_yuv(out->format.pixels)) {
    most += 0.5;
  }
  if (!(fabs(got - exact) <= most)) {
    char from[FORMAT_TEXT];
    char to[FORMAT_TEXT];
    ck_abort_msg("%s to %s at %zu, %zu: %f is not %f", format_describe(&in->format, from), format_describe(&out->format, to), x,
                 y, got, exact);
  }
}

static void compare_pixel(const struct picture *in, const struct picture *out, size_t x, size_t y) {
  if (is_gray(out->format.pixels)) {
    close_to(gray_at(out, x, y), expected_gray(in, x, y), in, out, x, y);
  } else if (is_rgb(out->format.pixels)) {
    struct color got = color_at(out, x, y);
    struct color exact = color_at(in, x, y);
    close_to(got.red, limit(exact.red), in, out, x, y);
    close_to(got.green, limit(exact.green), in, out, x, y);
    close_to(got.blue, limit(exact.blue), in, out, x, y);
  } else {
    close_to(luma_at(out, x, y), expected_luma(in, x, y), in, out, x, y);
    if (x % 2 == 0 && (y % 2 == 0 || out->format.pixels == PIXELS_YUYV422)) {
      close_to(chroma_at(out, 0, x, y), expected_chroma(in, out, 0, x, y), in, out, x, y);
      close_to(chroma_at(out, 1, x, y), expected_chroma(in, out, 1, x, y), in, out, x, y);
    }
  }
}

/* Floats of 0 to 1, where they mean levels. */
static void scale_floats(struct stage_fixture *fixture) {
  float *floats = fixture->input;
  for (size_t i = 0; i < format_samples(&fixture->plan.input); i++) {
    floats[i] = (floats[i] + 300.0F) / 600.0F;
  }
}

static void check_pair(size_t from, size_t to, uint32_t width, uint32_t height, int matrix, int range) {
  struct setting settings[] = {{"to", {(double)to}, 1}, {"matrix", {matrix}, 1}, {"range", {range}, 1}, {0}};
  struct stage_fixture fixture;
  fixture_open(&fixture, &convert_stage, format_image(formats[from], width, height), settings, width * 64 + height);
  if (formats[from] == PIXELS_GRAYF32LE) {
    scale_floats(&fixture);
  }
  fixture_run(&fixture);
  ck_assert_int_eq(fixture.plan.output.pixels, formats[to]);
  ck_assert_str_eq(convert_about.parameters[0].choices[to], pixel_format_names[formats[to]]);
  struct picture in = {fixture.plan.input, fixture.input, matrix == MATRIX_BT709, range == RANGE_FULL};
  struct picture out = {fixture.plan.output, fixture.output, in.bt709, in.full};
  for (size_t y = 0; y < height; y++) {
    for (size_t x = 0; x < width; x++) {
      compare_pixel(&in, &out, x, y);
    }
  }
  fixture_close(&fixture);
}

START_TEST(every_pair_agrees_with_the_formulas_at_every_small_size) {
  static const uint32_t sides[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 33, 40};
  for (size_t w = 0; w < sizeof sides / sizeof sides[0]; w++) {
    for (size_t h = 0; h < sizeof sides / sizeof sides[0]; h++) {
      for (size_t to = 0; to < FORMATS; to++) {
        check_pair((size_t)_i, to, sides[w], sides[h], MATRIX_BT601, RANGE_LIMITED);
      }
    }
  }
}
END_TEST

START_TEST(tiles_meet_without_a_seam) {
  static const uint32_t widths[] = {1023, 1024, 1025, 2051};
  for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
    for (size_t to = 0; to < FORMATS; to++) {
      check_pair((size_t)_i, to, widths[w], 3, MATRIX_BT601, RANGE_LIMITED);
    }
  }
}
END_TEST

START_TEST(matrix_and_range_are_heeded) {
  for (size_t to = 0; to < FORMATS; to++) {
    check_pair((size_t)_i, to, 31, 9, MATRIX_BT601, RANGE_FULL);
    check_pair((size_t)_i, to, 31, 9, MATRIX_BT709, RANGE_LIMITED);
    check_pair((size_t)_i, to, 31, 9, MATRIX_BT709, RANGE_FULL);
  }
}
END_TEST

START_TEST(white_black_and_gray_have_no_colour) {
  static const uint8_t colors[4 * 3] = {0, 0, 0, 255, 255, 255, 128, 128, 128, 1, 1, 1};
  for (int range = RANGE_LIMITED; range <= RANGE_FULL; range++) {
    struct stage_fixture there;
    struct stage_fixture back;
    fixture_open(&there, &convert_stage, format_image(PIXELS_RGB24, 4, 1),
                 (struct setting[]){{"to", {5}, 1}, {"range", {range}, 1}, {0}}, 0);
    memcpy(there.input, colors, sizeof colors);
    fixture_run(&there);
    const uint8_t *yuyv = there.output;
    ck_assert_uint_eq(yuyv[0], range == RANGE_FULL ? 0 : 16);
    ck_assert_uint_eq(yuyv[2], range == RANGE_FULL ? 255 : 235);
    for (size_t i = 1; i < 8; i += 2) {
      ck_assert_uint_eq(yuyv[i], 128);
    }
    fixture_open(&back, &convert_stage, there.plan.output, (struct setting[]){{"to", {1}, 1}, {"range", {range}, 1}, {0}}, 0);
    memcpy(back.input, yuyv, 8);
    fixture_run(&back);
    ck_assert_mem_eq(back.output, colors, sizeof colors);
    fixture_close(&there);
    fixture_close(&back);
  }
}
END_TEST

START_TEST(floats_outside_0_to_1_saturate) {
  const float values[] = {-1.0F, -0.0F, 0.5F, 1.0F, 7.0F, INFINITY, -INFINITY, NAN};
  const uint8_t levels[] = {0, 0, 128, 255, 255, 255, 0, 0};
  struct stage_fixture fixture;
  fixture_open(&fixture, &convert_stage, format_image(PIXELS_GRAYF32LE, 8, 1), (struct setting[]){{"to", {0}, 1}, {0}}, 0);
  memcpy(fixture.input, values, sizeof values);
  fixture_run(&fixture);
  ck_assert_mem_eq(fixture.output, levels, sizeof levels);
  fixture_close(&fixture);
}
END_TEST

START_TEST(a_tensor_is_refused) {
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){3, 4, 5}, 3);
  ck_assert_str_eq(fixture_problem(&convert_stage, format, NULL),
                   "convert takes an image, not float32[3,4,5]; put `convert` before the stage that makes a tensor of it");
}
END_TEST

Suite *convert_suite(void);
Suite *convert_suite(void) {
  Suite *suite = suite_create("convert");
  TCase *test = tcase_create("convert");
  tcase_set_timeout(test, 120);
  tcase_add_loop_test(test, every_pair_agrees_with_the_formulas_at_every_small_size, 0, FORMATS);
  tcase_add_loop_test(test, tiles_meet_without_a_seam, 0, FORMATS);
  tcase_add_loop_test(test, matrix_and_range_are_heeded, 0, FORMATS);
  tcase_add_test(test, white_black_and_gray_have_no_colour);
  tcase_add_test(test, floats_outside_0_to_1_saturate);
  tcase_add_test(test, a_tensor_is_refused);
  suite_add_tcase(suite, test);
  return suite;
}
