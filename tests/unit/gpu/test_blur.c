/* blur, against the whole Gaussian summed in double precision over a mirrored image. */
#include "gpu/stages/blur/blur.h"
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <math.h>
#include <string.h>

static int64_t mirrored(int64_t index, int64_t size) {
  while (size > 1 && (index < 0 || index >= size)) {
    index = index < 0 ? -index : 2 * size - 2 - index;
  }
  return size > 1 ? index : 0;
}

static double sample(const struct stage_plan *plan, const void *frame, int64_t x, int64_t y, size_t channel) {
  size_t channels = plan->input_bytes / plan->input.width / plan->input.height / (plan->input.dtype == ELEMENT_FLOAT32 ? 4 : 1);
  size_t index = (size_t)(y * plan->input.width + x) * channels + channel;
  return plan->input.dtype == ELEMENT_FLOAT32 ? (double)((const float *)frame)[index] : ((const uint8_t *)frame)[index];
}

static double expected(const struct stage_fixture *fixture, int64_t x, int64_t y, size_t channel, double sigma,
                       int64_t radius) {
  double sum = 0;
  double weights = 0;
  for (int64_t j = -radius; j <= radius; j++) {
    for (int64_t i = -radius; i <= radius; i++) {
      double weight = exp((double)-(i * i + j * j) / (2 * sigma * sigma));
      sum += weight * sample(&fixture->plan, fixture->input, mirrored(x + i, fixture->plan.input.width),
                             mirrored(y + j, fixture->plan.input.height), channel);
      weights += weight;
    }
  }
  return sum / weights;
}

static void check(enum pixel_format pixels, uint32_t width, uint32_t height, double sigma, uint32_t radius) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &blur_stage, format_image(pixels, width, height),
               (struct setting[]){{"sigma", {sigma}, 1}, {"radius", {radius}, 1}, {0}}, width * 64 + height);
  fixture_run(&fixture);
  ck_assert(format_equal(&fixture.plan.input, &fixture.plan.output));
  size_t channels = pixels == PIXELS_RGB24 || pixels == PIXELS_BGR24 ? 3 : 1;
  double most = pixels == PIXELS_GRAYF32LE ? 1e-5 * 300 : 0.6;
  size_t wrong = 0;
  for (size_t i = 0; i < (size_t)width * height * channels; i++) {
    int64_t x = (int64_t)(i / channels % width);
    int64_t y = (int64_t)(i / channels / width);
    double exact = expected(&fixture, x, y, i % channels, sigma, radius);
    wrong += fabs(sample(&fixture.plan, fixture.output, x, y, i % channels) - exact) <= most ? 0 : 1;
  }
  ck_assert_msg(wrong == 0, "%s %ux%u, sigma %g, radius %u: %zu samples are wrong", pixel_format_names[pixels], width, height,
                sigma, radius, wrong);
  fixture_close(&fixture);
}

static const enum pixel_format formats[] = {PIXELS_GRAY, PIXELS_RGB24, PIXELS_BGR24, PIXELS_GRAYF32LE};
enum { FORMATS = sizeof formats / sizeof formats[0] };

START_TEST(every_size_and_border_agrees_with_the_formula) {
  static const uint32_t sides[] = {1, 2, 3, 5, 8, 17, 40};
  for (size_t w = 0; w < sizeof sides / sizeof sides[0]; w++) {
    for (size_t h = 0; h < sizeof sides / sizeof sides[0]; h++) {
      check(formats[_i], sides[w], sides[h], 0.3, 1);
      check(formats[_i], sides[w], sides[h], 1.5, 5);
    }
  }
}
END_TEST

START_TEST(a_radius_beyond_the_image_mirrors_it_again) {
  check(formats[_i], 3, 2, 20, 60);
  check(formats[_i], 1, 9, 4, 12);
}
END_TEST

START_TEST(blocks_meet_without_a_seam) {
  check(formats[_i], 1025, 3, 1, 3);
  check(formats[_i], 2049, 2, 2, 4);
}
END_TEST

START_TEST(the_radius_follows_sigma_where_none_is_given) {
  struct stage_fixture given;
  struct stage_fixture derived;
  double factor = formats[_i] == PIXELS_GRAYF32LE ? 4 : 3;
  fixture_open(&given, &blur_stage, format_image(formats[_i], 31, 29),
               (struct setting[]){{"sigma", {1.1}, 1}, {"radius", {ceil(1.1 * factor)}, 1}, {0}}, 5);
  fixture_open(&derived, &blur_stage, format_image(formats[_i], 31, 29), (struct setting[]){{"sigma", {1.1}, 1}, {0}}, 5);
  fixture_run(&given);
  fixture_run(&derived);
  ck_assert_mem_eq(given.output, derived.output, given.plan.output_bytes);
  fixture_close(&given);
  fixture_close(&derived);
}
END_TEST

START_TEST(the_widest_blur_leaves_a_flat_image_alone) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &blur_stage, format_image(PIXELS_GRAY, 50, 50), (struct setting[]){{"sigma", {64}, 1}, {0}}, 0);
  memset(fixture.input, 201, fixture.plan.input_bytes);
  fixture_run(&fixture);
  ck_assert_mem_eq(fixture.output, fixture.input, fixture.plan.input_bytes);
  fixture_close(&fixture);
}
END_TEST

START_TEST(planar_formats_are_refused_with_what_to_do) {
  static const struct setting settings[] = {{"sigma", {1}, 1}, {0}};
  ck_assert_str_eq(fixture_problem(&blur_stage, format_image(PIXELS_NV12, 8, 8), settings),
                   "blur takes gray, rgb24, bgr24 and grayf32le, not nv12 8x8; put `convert: {to: rgb24}` or `{to: gray}` "
                   "before it");
}
END_TEST

Suite *blur_suite(void);
Suite *blur_suite(void) {
  Suite *suite = suite_create("blur");
  TCase *test = tcase_create("blur");
  tcase_set_timeout(test, 120);
  tcase_add_loop_test(test, every_size_and_border_agrees_with_the_formula, 0, FORMATS);
  tcase_add_loop_test(test, a_radius_beyond_the_image_mirrors_it_again, 0, FORMATS);
  tcase_add_loop_test(test, blocks_meet_without_a_seam, 0, FORMATS);
  tcase_add_loop_test(test, the_radius_follows_sigma_where_none_is_given, 0, FORMATS);
  tcase_add_test(test, the_widest_blur_leaves_a_flat_image_alone);
  tcase_add_test(test, planar_formats_are_refused_with_what_to_do);
  suite_add_tcase(suite, test);
  return suite;
}
