/* resize, against positions and areas worked out in double precision, plane by plane. */
#include "gpu/stages/resize/resize.h"
#include "tests/unit/gpu/stage_fixture.h"
#include "tests/unit/runner.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRETCH, LETTERBOX };

/* One channel of one plane of a frame. */
struct channel {
  const void *samples;
  bool floats;
  size_t offset, step; /* of the first sample, and from pixel to pixel */
  int64_t width, height;
};

static double sample(const struct channel *channel, int64_t x, int64_t y) {
  int64_t column = x < 0 ? 0 : x >= channel->width ? channel->width - 1 : x;
  int64_t row = y < 0 ? 0 : y >= channel->height ? channel->height - 1 : y;
  size_t index = channel->offset + (size_t)(row * channel->width + column) * channel->step;
  return channel->floats ? (double)((const float *)channel->samples)[index] : ((const uint8_t *)channel->samples)[index];
}

/* The channels of a frame, at most 3; returns how many. */
static size_t channels_of(const struct frame_format *format, const void *samples, struct channel channels[3]) {
  struct channel full = {samples, format->dtype == ELEMENT_FLOAT32, 0, 1, format->width, format->height};
  struct channel half = {
      samples, false, (size_t)format->width * format->height, 1, (full.width + 1) / 2, (full.height + 1) / 2};
  size_t halves = (size_t)half.width * (size_t)half.height;
  channels[0] = full;
  switch (format->pixels) {
  case PIXELS_RGB24:
  case PIXELS_BGR24:
    for (size_t i = 0; i < 3; i++) {
      channels[i] = full;
      channels[i].offset = i;
      channels[i].step = 3;
    }
    return 3;
  case PIXELS_NV12:
    half.step = 2;
    channels[1] = channels[2] = half;
    channels[2].offset += 1;
    return 3;
  case PIXELS_YUV420P:
    channels[1] = channels[2] = half;
    channels[2].offset += halves;
    return 3;
  default:
    return 1;
  }
}

/* -- the filters, one pixel at a time ------------------------------------------------------------------------------ */

static double bilinear(const struct channel *in, double x, double y) {
  double column = floor(x);
  double row = floor(y);
  double upper = sample(in, (int64_t)column, (int64_t)row) * (column + 1 - x) +
                 sample(in, (int64_t)column + 1, (int64_t)row) * (x - column);
  double lower = sample(in, (int64_t)column, (int64_t)row + 1) * (column + 1 - x) +
                 sample(in, (int64_t)column + 1, (int64_t)row + 1) * (x - column);
  return upper * (row + 1 - y) + lower * (y - row);
}

static double overlap(double begin, double end, int64_t cell) {
  double length = fmin(end, (double)cell + 1) - fmax(begin, (double)cell);
  return length > 0 ? length : 0;
}

static double area(const struct channel *in, double left, double top, double right, double bottom) {
  double sum = 0;
  for (int64_t y = (int64_t)top; y < in->height && (double)y < bottom; y++) {
    for (int64_t x = (int64_t)left; x < in->width && (double)x < right; x++) {
      sum += sample(in, x, y) * overlap(left, right, x) * overlap(top, bottom, y);
    }
  }
  return sum / ((right - left) * (bottom - top));
}

static double expected(const struct channel *in, int filter, int64_t x, int64_t y, int64_t width, int64_t height) {
  double across = (double)in->width / (double)width;
  double down = (double)in->height / (double)height;
  if (filter == RESIZE_NEAREST) {
    return sample(in, (int64_t)ceil(((double)x + 0.5) * across) - 1, (int64_t)ceil(((double)y + 0.5) * down) - 1);
  }
  if (filter == RESIZE_BILINEAR) {
    return bilinear(in, ((double)x + 0.5) * across - 0.5, ((double)y + 0.5) * down - 0.5);
  }
  return area(in, (double)x * across, (double)y * down, ((double)x + 1) * across, ((double)y + 1) * down);
}

/* -- comparison ---------------------------------------------------------------------------------------------------- */

/* Half a level is rounding; weights of 1/2048 lose up to an eighth of a level on each axis. */
static double tolerance(const struct channel *in, int filter) {
  return filter == RESIZE_NEAREST ? 0 : in->floats ? 300 * 1e-5 : filter == RESIZE_BILINEAR ? 0.75 : 0.501;
}

static size_t wrong_samples(const struct channel *in, const struct channel *out, int filter) {
  size_t wrong = 0;
  for (int64_t y = 0; y < out->height; y++) {
    for (int64_t x = 0; x < out->width; x++) {
      double exact = expected(in, filter, x, y, out->width, out->height);
      wrong += fabs(sample(out, x, y) - exact) <= tolerance(in, filter) ? 0 : 1;
    }
  }
  return wrong;
}

static void check(enum pixel_format pixels, int filter, const uint32_t from[2], const uint32_t to[2]) {
  struct stage_fixture fixture;
  struct setting settings[] = {{"width", {to[0]}, 1}, {"height", {to[1]}, 1}, {"filter", {filter}, 1}, {0}};
  fixture_open(&fixture, &resize_stage, format_image(pixels, from[0], from[1]), settings, from[0] * 64 + to[1]);
  fixture_run(&fixture);
  struct channel in[3];
  struct channel out[3];
  size_t count = channels_of(&fixture.plan.input, fixture.input, in);
  channels_of(&fixture.plan.output, fixture.output, out);
  for (size_t i = 0; i < count; i++) {
    size_t wrong = wrong_samples(&in[i], &out[i], filter);
    ck_assert_msg(wrong == 0, "%s, filter %d, %ux%u to %ux%u: %zu samples of channel %zu are wrong", pixel_format_names[pixels],
                  filter, from[0], from[1], to[0], to[1], wrong, i);
  }
  fixture_close(&fixture);
}

static const enum pixel_format formats[] = {PIXELS_GRAY, PIXELS_RGB24, PIXELS_NV12, PIXELS_YUV420P, PIXELS_GRAYF32LE};
enum { FORMATS = sizeof formats / sizeof formats[0] };

START_TEST(every_filter_agrees_with_the_formula_between_small_sizes) {
  static const uint32_t sizes[][2] = {{1, 1}, {1, 7}, {2, 3}, {3, 2}, {5, 5}, {8, 4}, {9, 16}, {17, 1}, {24, 13}, {40, 39}};
  for (size_t from = 0; from < sizeof sizes / sizeof sizes[0]; from++) {
    for (size_t to = 0; to < sizeof sizes / sizeof sizes[0]; to++) {
      for (int filter = RESIZE_NEAREST; filter <= RESIZE_AREA; filter++) {
        check(formats[_i], filter, sizes[from], sizes[to]);
      }
    }
  }
}
END_TEST

/* Squares of a power of two are averaged in whole numbers. */
START_TEST(squares_of_pixels_agree_with_the_formula) {
  static const uint32_t sides[] = {1, 2, 3, 4, 8, 16};
  for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
    check(formats[_i], RESIZE_AREA, (uint32_t[]){48 * sides[i], 4 * sides[i]}, (uint32_t[]){48, 4});
    check(formats[_i], RESIZE_AREA, (uint32_t[]){10 * sides[i], 6 * sides[i]}, (uint32_t[]){10, 6});
  }
}
END_TEST

static uint8_t byte_of(const struct stage_fixture *fixture, size_t index) { return ((const uint8_t *)fixture->output)[index]; }

/* What bilinear makes of two rows and two columns in equal parts, in its own two steps. */
static uint8_t mix_four(const uint8_t *upper, const uint8_t *lower, size_t step) {
  const uint32_t half = RESIZE_ONE / 2;
  return resize_mix_columns(resize_mix_rows(upper[0], lower[0], half), resize_mix_rows(upper[step], lower[step], half), half);
}

START_TEST(bilinear_to_half_is_what_mixing_gives) {
  struct stage_fixture fixture;
  const size_t channels = _i == 0 ? 1 : 3, width = 66, height = 14;
  fixture_open(&fixture, &resize_stage, format_image(_i == 0 ? PIXELS_GRAY : PIXELS_RGB24, 2 * width, 2 * height),
               (struct setting[]){{"width", {width}, 1}, {"height", {height}, 1}, {0}}, 5);
  fixture_run(&fixture);
  const uint8_t *in = fixture.input;
  for (size_t i = 0; i < width * height * channels; i++) {
    size_t y = i / (width * channels), x = i / channels % width;
    const uint8_t *upper = in + (2 * y * 2 * width + 2 * x) * channels + i % channels;
    ck_assert_uint_eq(byte_of(&fixture, i), mix_four(upper, upper + 2 * width * channels, channels));
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(large_odd_sizes_agree_with_the_formula) {
  for (int filter = RESIZE_NEAREST; filter <= RESIZE_AREA; filter++) {
    check(formats[_i], filter, (uint32_t[]){1281, 719}, (uint32_t[]){333, 517});
    check(formats[_i], filter, (uint32_t[]){65536, 2}, (uint32_t[]){3, 1});
    check(formats[_i], filter, (uint32_t[]){1, 3}, (uint32_t[]){2, 65536});
  }
}
END_TEST

START_TEST(the_same_size_changes_nothing) {
  struct stage_fixture fixture;
  for (int filter = RESIZE_NEAREST; filter <= RESIZE_AREA; filter++) {
    fixture_open(&fixture, &resize_stage, format_image(PIXELS_BGR24, 37, 21),
                 (struct setting[]){{"width", {37}, 1}, {"height", {21}, 1}, {"filter", {filter}, 1}, {0}}, 3);
    fixture_run(&fixture);
    ck_assert_mem_eq(fixture.output, fixture.input, fixture.plan.input_bytes);
    fixture_close(&fixture);
  }
}
END_TEST

/* -- letterbox ----------------------------------------------------------------------------------------------------- */

START_TEST(the_same_size_keeps_what_is_no_number_where_it_is) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &resize_stage, format_image(PIXELS_GRAYF32LE, 4, 2),
               (struct setting[]){{"width", {4}, 1}, {"height", {2}, 1}, {"filter", {_i}, 1}, {0}}, 1);
  float odd[] = {INFINITY, 1, -0.0F, NAN, 2, -INFINITY, 3, 4};
  memcpy(fixture.input, odd, sizeof odd);
  fixture_run(&fixture);
  ck_assert_mem_eq(fixture.output, odd, sizeof odd);
  fixture_close(&fixture);
}
END_TEST

START_TEST(letterbox_keeps_proportions_between_level_bars) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &resize_stage, format_image(PIXELS_GRAY, 16, 8),
               (struct setting[]){{"width", {16}, 1}, {"height", {16}, 1}, {"fit", {LETTERBOX}, 1}, {"fill", {77}, 1}, {0}}, 1);
  fixture_run(&fixture);
  ck_assert_mem_eq((uint8_t *)fixture.output + 4 * 16, fixture.input, 16 * 8);
  for (size_t i = 0; i < 4 * 16; i++) {
    ck_assert_uint_eq(byte_of(&fixture, i), 77);
    ck_assert_uint_eq(byte_of(&fixture, 12 * 16 + i), 77);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(bars_stand_left_and_right_of_a_narrow_image) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &resize_stage, format_image(PIXELS_GRAYF32LE, 4, 6),
               (struct setting[]){{"width", {9}, 1}, {"height", {6}, 1}, {"fit", {LETTERBOX}, 1}, {"fill", {255}, 1}, {0}}, 1);
  fixture_run(&fixture);
  const float *in = fixture.input;
  const float *out = fixture.output;
  for (size_t i = 0; i < 9 * (size_t)6; i++) {
    size_t x = i % 9;
    ck_assert_float_eq(out[i], x < 2 || x >= 6 ? 1.0F : in[i / 9 * 4 + x - 2]);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(bars_of_yuv_are_black_by_default_and_have_no_colour) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &resize_stage, format_image(_i == 0 ? PIXELS_NV12 : PIXELS_YUV420P, 8, 2),
               (struct setting[]){{"width", {8}, 1}, {"height", {8}, 1}, {"fit", {LETTERBOX}, 1}, {0}}, 1);
  fixture_run(&fixture);
  ck_assert_mem_eq((uint8_t *)fixture.output + 2 * 8, fixture.input, 8 * 2);
  ck_assert_uint_eq(byte_of(&fixture, 0), 16);
  ck_assert_uint_eq(byte_of(&fixture, 63), 16);
  ck_assert_uint_eq(byte_of(&fixture, 64), 128);
  ck_assert_uint_eq(byte_of(&fixture, 95), 128);
  size_t window = _i == 0 ? 64 + 8 : 64 + 4;
  ck_assert_mem_eq((uint8_t *)fixture.output + window, (uint8_t *)fixture.input + 16, _i == 0 ? 8 : 4);
  fixture_close(&fixture);
}
END_TEST

START_TEST(formats_without_planes_of_pixels_are_refused) {
  static const struct setting settings[] = {{"width", {4}, 1}, {"height", {4}, 1}, {0}};
  ck_assert_str_eq(fixture_problem(&resize_stage, format_image(PIXELS_YUYV422, 8, 8), settings),
                   "resize takes gray, rgb24, bgr24, nv12, yuv420p and grayf32le, not yuyv422 8x8; put `convert: {to: nv12}` "
                   "before it");
  struct frame_format tensor = format_tensor(ELEMENT_UINT8, (uint64_t[]){9}, 1);
  ck_assert_str_eq(fixture_problem(&resize_stage, tensor, settings),
                   "resize takes gray, rgb24, bgr24, nv12, yuv420p and grayf32le, not uint8[9]; put it before the stage that "
                   "makes a tensor of the image");
}
END_TEST

Suite *resize_suite(void);
Suite *resize_suite(void) {
  Suite *suite = suite_create("resize");
  TCase *test = tcase_create("resize");
  tcase_set_timeout(test, 120);
  tcase_add_loop_test(test, every_filter_agrees_with_the_formula_between_small_sizes, 0, FORMATS);
  tcase_add_loop_test(test, squares_of_pixels_agree_with_the_formula, 0, FORMATS);
  tcase_add_loop_test(test, bilinear_to_half_is_what_mixing_gives, 0, 2);
  tcase_add_test(test, the_same_size_changes_nothing);
  tcase_add_loop_test(test, the_same_size_keeps_what_is_no_number_where_it_is, RESIZE_NEAREST, RESIZE_AREA + 1);
  tcase_add_test(test, letterbox_keeps_proportions_between_level_bars);
  tcase_add_test(test, bars_stand_left_and_right_of_a_narrow_image);
  tcase_add_loop_test(test, bars_of_yuv_are_black_by_default_and_have_no_colour, 0, 2);
  tcase_add_test(test, formats_without_planes_of_pixels_are_refused);
  suite_add_tcase(suite, test);
  TCase *large = tcase_create("large");
  tcase_set_timeout(large, 120);
  tcase_set_tags(large, NO_THREADS);
  tcase_add_loop_test(large, large_odd_sizes_agree_with_the_formula, 0, FORMATS);
  suite_add_tcase(suite, large);
  return suite;
}
