/* The stages that treat each sample by itself: affine, work, threshold, normalize. */
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

extern const struct stage_descriptor affine_stage, work_stage, threshold_stage, normalize_stage;

static struct stage_fixture fixture;

/* -- plain references ---------------------------------------------------------------------------------------------- */

static double level_of(double value) { return floor(fmin(fmax(value, 0), 255) + 0.5); }

/* Check's own assertions write a line to a file each time, which is too slow for every sample of a frame. */
static void assert_near(double value, double expected, double tolerance) {
  if (!(fabs(value - expected) <= tolerance * fmax(1, fabs(expected)))) {
    ck_abort_msg("%.9g instead of %.9g", value, expected);
  }
}

static double sample(const void *data, enum element_type type, size_t index) {
  return type == ELEMENT_FLOAT32 ? (double)((const float *)data)[index] : (double)((const uint8_t *)data)[index];
}

/* Runs the stage and compares every sample with reference(in), which gets the stage's settings too. */
static void compare_all(const struct stage_descriptor *stage, struct frame_format format, const struct setting *settings,
                        double (*reference)(double in, const struct setting *settings, bool floats)) {
  fixture_open(&fixture, stage, format, settings, format.width + format.height);
  fixture_run(&fixture);
  ck_assert(format_equal(&fixture.plan.output, &format));
  bool floats = format.dtype == ELEMENT_FLOAT32;
  size_t samples = format_samples(&format);
  for (size_t i = 0; i < samples; i++) {
    double expected = reference(sample(fixture.input, format.dtype, i), settings, floats);
    assert_near(sample(fixture.output, format.dtype, i), floats ? expected : level_of(expected), floats ? 1e-6 : 0);
  }
  fixture_close(&fixture);
}

static void compare_sizes(const struct stage_descriptor *stage, enum pixel_format pixels, const struct setting *settings,
                          double (*reference)(double in, const struct setting *settings, bool floats)) {
  for (size_t i = 0; fixture_sizes[i][0]; i++) {
    compare_all(stage, format_image(pixels, fixture_sizes[i][0], fixture_sizes[i][1]), settings, reference);
  }
}

static const enum element_type types[] = {ELEMENT_UINT8, ELEMENT_FLOAT32};

static struct frame_format tensor_of(enum element_type type) { return format_tensor(type, (uint64_t[]){3, 5, 7, 11}, 4); }

/* All 256 levels as one frame. */
static void open_levels(const struct stage_descriptor *stage, const struct setting *settings) {
  fixture_open(&fixture, stage, format_image(PIXELS_GRAY, 256, 1), settings, 0);
  for (int level = 0; level < 256; level++) {
    ((uint8_t *)fixture.input)[level] = (uint8_t)level;
  }
  fixture_run(&fixture);
}

static unsigned level_out(unsigned level) { return ((const uint8_t *)fixture.output)[level]; }

static void open_floats(const struct stage_descriptor *stage, const struct setting *settings, const float *values,
                        size_t count) {
  fixture_open(&fixture, stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){count}, 1), settings, 0);
  memcpy(fixture.input, values, count * sizeof *values);
  fixture_run(&fixture);
}

static float float_out(size_t index) { return ((const float *)fixture.output)[index]; }

/* -- affine -------------------------------------------------------------------------------------------------------- */

/* These numbers have few binary digits, so products and sums of levels are exact, and so are halves. */
static const struct setting affine_settings[][3] = {
    {{0}},
    {SET("scale", 1.5), SET("offset", -20.25)},
    {SET("scale", -2), SET("offset", 300)},
    {SET("scale", 0), SET("offset", 127.5)},
    {SET("scale", 0.0625)},
    {SET("offset", 1e6)},
};

static double affine_reference(double in, const struct setting *settings, bool floats) {
  double scale = 1;
  double offset = 0;
  for (; settings->name; settings++) {
    *(settings->name[0] == 's' ? &scale : &offset) = settings->numbers[0];
  }
  (void)floats;
  return in * scale + offset;
}

START_TEST(affine_is_right_on_every_format) {
  const struct setting *settings = affine_settings[_i];
  for (int pixels = PIXELS_GRAY; pixels < PIXELS_COUNT; pixels++) {
    compare_sizes(&affine_stage, (enum pixel_format)pixels, settings, affine_reference);
  }
  for (size_t i = 0; i < 2; i++) {
    compare_all(&affine_stage, tensor_of(types[i]), settings, affine_reference);
  }
}
END_TEST

START_TEST(affine_rounds_halves_up_and_saturates) {
  open_levels(&affine_stage, SETTINGS(SET("scale", 0.5), SET("offset", -1)));
  ck_assert_uint_eq(level_out(0), 0); /* -1 */
  ck_assert_uint_eq(level_out(1), 0); /* -0.5 */
  ck_assert_uint_eq(level_out(3), 1); /* 0.5 */
  ck_assert_uint_eq(level_out(4), 1);
  ck_assert_uint_eq(level_out(5), 2); /* 1.5 */
  fixture_close(&fixture);
  open_levels(&affine_stage, SETTINGS(SET("scale", 1e6), SET("offset", -1e6)));
  ck_assert_uint_eq(level_out(0), 0);
  ck_assert_uint_eq(level_out(1), 0);
  ck_assert_uint_eq(level_out(2), 255);
  ck_assert_uint_eq(level_out(255), 255);
  fixture_close(&fixture);
}
END_TEST

START_TEST(affine_passes_what_is_no_number) {
  const float values[] = {NAN, INFINITY, -INFINITY, FLT_MAX};
  open_floats(&affine_stage, SETTINGS(SET("scale", -2)), values, 4);
  ck_assert(isnan(float_out(0)));
  ck_assert_float_eq(float_out(1), -INFINITY);
  ck_assert_float_eq(float_out(2), INFINITY);
  ck_assert_float_eq(float_out(3), -INFINITY);
  fixture_close(&fixture);
}
END_TEST

/* -- work ---------------------------------------------------------------------------------------------------------- */

START_TEST(one_round_of_work_is_the_formula) {
  for (size_t i = 0; fixture_sizes[i][0]; i++) {
    struct frame_format format = format_image(PIXELS_GRAYF32LE, fixture_sizes[i][0], fixture_sizes[i][1]);
    fixture_open(&fixture, &work_stage, format, SETTINGS(SET("rounds", 1)), (uint32_t)i);
    fixture_run(&fixture);
    for (size_t s = 0; s < format_samples(&format); s++) {
      double v = (double)((const float *)fixture.input)[s];
      assert_near((double)float_out(s), sin(v) * cos(v) + v, 2e-7);
    }
    fixture_close(&fixture);
  }
}
END_TEST

START_TEST(work_is_right_from_tiny_to_huge) {
  enum { COUNT = 4000 };
  static float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = (i % 2 ? -1.0F : 1.0F) * (float)pow(10, -38 + 76.0 * i / COUNT);
  }
  open_floats(&work_stage, SETTINGS(SET("rounds", 1)), values, COUNT);
  for (size_t i = 0; i < COUNT; i++) {
    double v = (double)values[i];
    double expected = sin(v) * cos(v) + v;
    ck_assert_msg(fabs((double)float_out(i) - expected) <= 2e-7 * fabs(expected), "work(%g) is %.9g, not %.9g", v,
                  (double)float_out(i), expected);
  }
  fixture_close(&fixture);
}
END_TEST

/* sin(v) cos(v) is 0 at half turns and pulls everything between two of them to the middle. */
START_TEST(many_rounds_of_work_settle) {
  const double quarter = 1.5707963267948966;
  const float values[] = {0.0F, 0.1F, 3.0F, -0.001F, 4.0F, INFINITY, NAN};
  open_floats(&work_stage, SETTINGS(SET("rounds", 100)), values, 7);
  ck_assert_float_eq(float_out(0), 0);
  assert_near((double)float_out(1), quarter, 1e-6);
  assert_near((double)float_out(2), quarter, 1e-6);
  assert_near((double)float_out(3), -quarter, 1e-6);
  assert_near((double)float_out(4), 3 * quarter, 1e-6);
  ck_assert(isnan(float_out(5)));
  ck_assert(isnan(float_out(6)));
  fixture_close(&fixture);
}
END_TEST

START_TEST(work_maps_levels_to_one_and_back) {
  open_levels(&work_stage, SETTINGS(SET("rounds", 1)));
  for (unsigned level = 0; level < 256; level++) {
    double v = level / 255.0;
    assert_near(level_out(level), level_of((sin(v) * cos(v) + v) * 255), 0);
  }
  fixture_close(&fixture);
  for (int pixels = PIXELS_GRAY; pixels < PIXELS_COUNT; pixels++) {
    fixture_open(&fixture, &work_stage, format_image((enum pixel_format)pixels, 33, 17), NULL, 3);
    fixture_run(&fixture);
    ck_assert(format_equal(&fixture.plan.output, &fixture.plan.input));
    fixture_close(&fixture);
  }
}
END_TEST

/* -- threshold ----------------------------------------------------------------------------------------------------- */

enum { BINARY, TRUNCATE, TO_ZERO };

static double number_of(const struct setting *settings, const char *name, double fallback) {
  for (; settings->name; settings++) {
    if (strcmp(settings->name, name) == 0) {
      return settings->numbers[0];
    }
  }
  return fallback;
}

static double threshold_reference(double in, const struct setting *settings, bool floats) {
  double level = number_of(settings, "level", floats ? 0.5 : 128);
  double low = number_of(settings, "low", 0);
  bool above = in > level;
  switch ((int)number_of(settings, "mode", BINARY)) {
  case TRUNCATE:
    return above ? level : in;
  case TO_ZERO:
    return above ? in : low;
  default:
    return above ? number_of(settings, "high", floats ? 1 : 255) : low;
  }
}

static const struct setting threshold_settings[][5] = {
    {{0}},
    {SET("level", 99.5), SET("low", 10), SET("high", 200)},
    {SET("mode", TRUNCATE), SET("level", 100.5)},
    {SET("mode", TO_ZERO), SET("level", 200), SET("low", 3.5)},
    {SET("level", 0)},
    {SET("level", 255), SET("mode", TO_ZERO)},
};

START_TEST(threshold_is_right_on_every_format) {
  const struct setting *settings = threshold_settings[_i];
  compare_sizes(&threshold_stage, PIXELS_GRAY, settings, threshold_reference);
  compare_sizes(&threshold_stage, PIXELS_GRAYF32LE, settings, threshold_reference);
  for (size_t i = 0; i < 2; i++) {
    compare_all(&threshold_stage, tensor_of(types[i]), settings, threshold_reference);
  }
}
END_TEST

START_TEST(the_level_itself_is_not_above_it) {
  open_levels(&threshold_stage, SETTINGS(SET("level", 128)));
  ck_assert_uint_eq(level_out(127), 0);
  ck_assert_uint_eq(level_out(128), 0);
  ck_assert_uint_eq(level_out(129), 255);
  fixture_close(&fixture);
  const float values[] = {NAN, INFINITY, -INFINITY, 0.5F};
  open_floats(&threshold_stage, NULL, values, 4);
  ck_assert_float_eq(float_out(0), 0);
  ck_assert_float_eq(float_out(1), 1);
  ck_assert_float_eq(float_out(2), 0);
  ck_assert_float_eq(float_out(3), 0);
  fixture_close(&fixture);
  open_floats(&threshold_stage, SETTINGS(SET("mode", TRUNCATE)), values, 2);
  ck_assert(isnan(float_out(0)));
  ck_assert_float_eq(float_out(1), 0.5F);
  fixture_close(&fixture);
}
END_TEST

START_TEST(threshold_says_what_it_does_not_take) {
  const char *problem = fixture_problem(&threshold_stage, format_image(PIXELS_NV12, 4, 4), NULL);
  ck_assert_str_eq(problem, "threshold takes gray, grayf32le and tensors, not nv12 4x4; put `convert: {to: gray}` before it");
  problem = fixture_problem(&threshold_stage, format_image(PIXELS_GRAY, 4, 4), SETTINGS(SET("level", 256)));
  ck_assert_str_eq(problem, "`level` is 256, but the samples of an 8 bit format go from 0 to 255");
  problem = fixture_problem(&threshold_stage, format_image(PIXELS_GRAY, 4, 4), SETTINGS(SET("low", -1)));
  ck_assert_ptr_nonnull(strstr(problem, "`low` is -1"));
  ck_assert_ptr_null(fixture_problem(&threshold_stage, format_image(PIXELS_GRAYF32LE, 4, 4), SETTINGS(SET("level", 256))));
}
END_TEST

/* -- normalize ----------------------------------------------------------------------------------------------------- */

static const enum pixel_format normalize_formats[] = {PIXELS_GRAY, PIXELS_RGB24, PIXELS_BGR24};

static void compare_normalized(enum pixel_format pixels, uint32_t width, uint32_t height) {
  const size_t channels = pixels == PIXELS_GRAY ? 1 : 3;
  struct setting settings[] = {SET("mean", 0.485, 0.456, 0.406), SET("std", 0.229, 0.224, 0.225), {0}};
  settings[0].count = settings[1].count = (unsigned)channels;
  fixture_open(&fixture, &normalize_stage, format_image(pixels, width, height), settings, width);
  fixture_run(&fixture);
  struct frame_format expected = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){channels, height, width}, 3);
  ck_assert(format_equal(&fixture.plan.output, &expected));
  const size_t count = (size_t)width * height;
  for (size_t i = 0; i < count * channels; i++) {
    const size_t channel = i / count;
    double in = ((const uint8_t *)fixture.input)[i % count * channels + channel];
    assert_near((double)float_out(i), (in / 255 - settings[0].numbers[channel]) / settings[1].numbers[channel], 1e-6);
  }
  fixture_close(&fixture);
}

START_TEST(normalize_gives_planes_of_floats) {
  for (size_t i = 0; fixture_sizes[i][0]; i++) {
    compare_normalized(normalize_formats[_i], fixture_sizes[i][0], fixture_sizes[i][1]);
  }
}
END_TEST

START_TEST(normalize_uses_one_number_for_all_channels) {
  const struct setting settings[] = {SET("mean", 2), SET("std", 4), SET("scale", 1), {0}};
  fixture_open(&fixture, &normalize_stage, format_image(PIXELS_RGB24, 2, 1), settings, 0);
  memcpy(fixture.input, (const uint8_t[]){2, 6, 10, 255, 0, 4}, 6);
  fixture_run(&fixture);
  const float expected[] = {0, 63.25F, 1, -0.5F, 2, 0.5F};
  for (size_t i = 0; i < 6; i++) {
    ck_assert_float_eq(float_out(i), expected[i]);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(normalize_says_what_it_does_not_take) {
  const char *problem = fixture_problem(&normalize_stage, format_image(PIXELS_YUV420P, 4, 2), NULL);
  ck_assert_str_eq(problem, "normalize takes gray, rgb24 and bgr24, not yuv420p 4x2; put `convert: {to: rgb24}` before it");
  ck_assert_ptr_nonnull(fixture_problem(&normalize_stage, format_image(PIXELS_GRAYF32LE, 4, 2), NULL));
  ck_assert_ptr_nonnull(fixture_problem(&normalize_stage, tensor_of(ELEMENT_UINT8), NULL));
  problem = fixture_problem(&normalize_stage, format_image(PIXELS_RGB24, 4, 2), SETTINGS(SET("std", 1, 2)));
  ck_assert_str_eq(problem, "`std` has 2 numbers for a format of 3 channels; give one number, or one for each channel");
  problem = fixture_problem(&normalize_stage, format_image(PIXELS_GRAY, 4, 2), SETTINGS(SET("mean", 1, 2)));
  ck_assert_str_eq(problem, "`mean` has 2 numbers for a format of 1 channel; give one number, or one for each channel");
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

Suite *pointwise_suite(void);

Suite *pointwise_suite(void) {
  Suite *suite = suite_create("pointwise");
  TCase *affine = tcase_create("affine");
  tcase_add_loop_test(affine, affine_is_right_on_every_format, 0, COUNT(affine_settings));
  tcase_add_test(affine, affine_rounds_halves_up_and_saturates);
  tcase_add_test(affine, affine_passes_what_is_no_number);
  suite_add_tcase(suite, affine);
  TCase *work = tcase_create("work");
  tcase_add_test(work, one_round_of_work_is_the_formula);
  tcase_add_test(work, work_is_right_from_tiny_to_huge);
  tcase_add_test(work, many_rounds_of_work_settle);
  tcase_add_test(work, work_maps_levels_to_one_and_back);
  suite_add_tcase(suite, work);
  TCase *threshold = tcase_create("threshold");
  tcase_add_loop_test(threshold, threshold_is_right_on_every_format, 0, COUNT(threshold_settings));
  tcase_add_test(threshold, the_level_itself_is_not_above_it);
  tcase_add_test(threshold, threshold_says_what_it_does_not_take);
  suite_add_tcase(suite, threshold);
  TCase *normalize = tcase_create("normalize");
  tcase_add_loop_test(normalize, normalize_gives_planes_of_floats, 0, COUNT(normalize_formats));
  tcase_add_test(normalize, normalize_uses_one_number_for_all_channels);
  tcase_add_test(normalize, normalize_says_what_it_does_not_take);
  suite_add_tcase(suite, normalize);
  return suite;
}
