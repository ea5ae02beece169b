/* stats: known frames, odd sizes, and what is not a number. */
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct stage_descriptor stats_stage;

enum { MINIMUM, MAXIMUM, MEAN, COUNTED, HISTOGRAM, BINS = 256, ELEMENTS = HISTOGRAM + BINS };

static struct stage_fixture fixture;

static float out(size_t index) { return ((const float *)fixture.output)[index]; }

static double input_sample(size_t index) {
  return fixture.plan.input.dtype == ELEMENT_FLOAT32 ? (double)((const float *)fixture.input)[index]
                                                     : (double)((const uint8_t *)fixture.input)[index];
}

/* Compares the result with a plain count; bins run from `low` to `high`. */
static void compare(double low, double high) {
  size_t bins[BINS] = {0};
  size_t samples = format_samples(&fixture.plan.input);
  double minimum = INFINITY;
  double maximum = -INFINITY;
  double sum = 0;
  for (size_t i = 0; i < samples; i++) {
    double value = input_sample(i);
    double bin = floor((value - low) / (high - low) * BINS);
    bins[(size_t)fmin(fmax(bin, 0), BINS - 1)]++;
    minimum = fmin(minimum, value);
    maximum = fmax(maximum, value);
    sum += value;
  }
  ck_assert_double_eq((double)out(MINIMUM), minimum);
  ck_assert_double_eq((double)out(MAXIMUM), maximum);
  ck_assert_double_eq_tol((double)out(MEAN), sum / (double)samples, 1e-4);
  ck_assert_float_eq(out(COUNTED), 1);
  for (size_t bin = 0; bin < BINS; bin++) {
    ck_assert_double_eq_tol((double)out(HISTOGRAM + bin), (double)bins[bin] / (double)samples, 1e-7);
  }
}

/* Whole numbers and a bin each, so that no rounding moves a sample to the bin beside it. */
static void round_floats(void) {
  for (size_t i = 0; i < format_samples(&fixture.plan.input); i++) {
    ((float *)fixture.input)[i] = roundf(((const float *)fixture.input)[i]);
  }
}

START_TEST(images_are_counted_in_full) {
  static const enum pixel_format formats[] = {PIXELS_GRAY, PIXELS_RGB24, PIXELS_BGR24};
  for (size_t f = 0; f < 3; f++) {
    for (size_t i = 0; fixture_sizes[i][0]; i++) {
      fixture_open(&fixture, &stats_stage, format_image(formats[f], fixture_sizes[i][0], fixture_sizes[i][1]), NULL,
                   (uint32_t)i);
      fixture_run(&fixture);
      struct frame_format expected = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){ELEMENTS}, 1);
      ck_assert(format_equal(&fixture.plan.output, &expected));
      compare(0, 256);
      fixture_close(&fixture);
    }
  }
}
END_TEST

START_TEST(floats_are_counted_in_full) {
  const struct setting settings[] = {SET("low", -128), SET("high", 128), {0}};
  for (size_t i = 0; fixture_sizes[i][0]; i++) {
    struct frame_format format = format_image(PIXELS_GRAYF32LE, fixture_sizes[i][0], fixture_sizes[i][1]);
    fixture_open(&fixture, &stats_stage, format, settings, (uint32_t)i);
    round_floats();
    fixture_run(&fixture);
    compare(-128, 128);
    fixture_close(&fixture);
  }
}
END_TEST

START_TEST(tensors_are_counted_in_full) {
  const uint64_t shape[] = {3, 40, 71};
  fixture_open(&fixture, &stats_stage, format_tensor(ELEMENT_UINT8, shape, 3), NULL, 1);
  fixture_run(&fixture);
  compare(0, 256);
  fixture_close(&fixture);
  fixture_open(&fixture, &stats_stage, format_tensor(ELEMENT_FLOAT32, shape, 3), SETTINGS(SET("high", 256)), 1);
  round_floats();
  fixture_run(&fixture);
  compare(0, 256);
  fixture_close(&fixture);
}
END_TEST

START_TEST(a_flat_image_has_one_bin) {
  fixture_open(&fixture, &stats_stage, format_image(PIXELS_GRAY, 101, 7), NULL, 0);
  memset(fixture.input, 200, fixture.plan.input_bytes);
  fixture_run(&fixture);
  ck_assert_float_eq(out(MINIMUM), 200);
  ck_assert_float_eq(out(MAXIMUM), 200);
  ck_assert_float_eq(out(MEAN), 200);
  for (size_t bin = 0; bin < BINS; bin++) {
    ck_assert_float_eq(out(HISTOGRAM + bin), bin == 200 ? 1 : 0);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(bins_of_bytes_can_be_narrowed) {
  const struct setting settings[] = {SET("low", 100), SET("high", 164), {0}}; /* four bins a level */
  fixture_open(&fixture, &stats_stage, format_image(PIXELS_GRAY, 4, 1), settings, 0);
  memcpy(fixture.input, (const uint8_t[]){0, 100, 101, 255}, 4);
  fixture_run(&fixture);
  ck_assert_float_eq(out(HISTOGRAM), 0.5F);
  ck_assert_float_eq(out(HISTOGRAM + 4), 0.25F);
  ck_assert_float_eq(out(HISTOGRAM + 255), 0.25F);
  fixture_close(&fixture);
}
END_TEST

START_TEST(what_is_not_finite_is_left_out) {
  const float values[] = {NAN, 0.25F, INFINITY, 0.75F, -INFINITY, -0.0F, 1.0F, -NAN};
  fixture_open(&fixture, &stats_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){8}, 1), NULL, 0);
  memcpy(fixture.input, values, sizeof values);
  fixture_run(&fixture);
  ck_assert_float_eq(out(MINIMUM), 0);
  ck_assert_float_eq(out(MAXIMUM), 1);
  ck_assert_float_eq(out(MEAN), 0.5F);
  ck_assert_float_eq(out(COUNTED), 0.5F);
  ck_assert_float_eq(out(HISTOGRAM), 0.25F);
  ck_assert_float_eq(out(HISTOGRAM + 64), 0.25F);
  ck_assert_float_eq(out(HISTOGRAM + 192), 0.25F);
  ck_assert_float_eq(out(HISTOGRAM + 255), 0.25F);
  for (size_t i = 0; i < 8; i++) {
    ((float *)fixture.input)[i] = NAN;
  }
  fixture_run(&fixture);
  for (size_t i = 0; i < ELEMENTS; i++) {
    ck_assert_float_eq(out(i), 0);
  }
  fixture_close(&fixture);
}
END_TEST

/* Added up in single precision, ten million ones stop at 2^24 or drift; here the mean is exact. */
START_TEST(the_mean_of_many_does_not_drift) {
  const size_t count = 10000019;
  fixture_open(&fixture, &stats_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){count}, 1), NULL, 0);
  for (size_t i = 0; i < count; i++) {
    ((float *)fixture.input)[i] = 1e6F + (float)(i % 2);
  }
  fixture_run(&fixture);
  ck_assert_double_eq_tol((double)out(MEAN), 1e6 + 0.5, 0.0625);
  fixture_close(&fixture);
}
END_TEST

START_TEST(stats_says_what_it_does_not_take) {
  const char *problem = fixture_problem(&stats_stage, format_image(PIXELS_YUYV422, 6, 2), NULL);
  ck_assert_str_eq(problem, "stats takes gray, rgb24, bgr24, grayf32le and tensors, not yuyv422 6x2; put `convert: {to: gray}` "
                            "before it");
  problem = fixture_problem(&stats_stage, format_image(PIXELS_GRAYF32LE, 6, 2), SETTINGS(SET("low", 1)));
  ck_assert_str_eq(problem, "`low` is 1 and `high` is 1, but `low` must be below `high`");
}
END_TEST

Suite *stats_suite(void);

Suite *stats_suite(void) {
  Suite *suite = suite_create("stats");
  TCase *tcase = tcase_create("stats");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, images_are_counted_in_full);
  tcase_add_test(tcase, floats_are_counted_in_full);
  tcase_add_test(tcase, tensors_are_counted_in_full);
  tcase_add_test(tcase, a_flat_image_has_one_bin);
  tcase_add_test(tcase, bins_of_bytes_can_be_narrowed);
  tcase_add_test(tcase, what_is_not_finite_is_left_out);
  tcase_add_test(tcase, the_mean_of_many_does_not_drift);
  tcase_add_test(tcase, stats_says_what_it_does_not_take);
  suite_add_tcase(suite, tcase);
  return suite;
}
