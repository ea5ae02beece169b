/* sobel, against the sums written out over a mirrored image. */
#include "gpu/stages/sobel.h"
#include "tests/unit/gpu/stage_fixture.h"
#include "tests/unit/runner.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static double sample(const struct stage_fixture *fixture, int64_t x, int64_t y) {
  int64_t width = fixture->plan.input.width;
  int64_t height = fixture->plan.input.height;
  x = x < 0 ? -x : x >= width ? 2 * width - 2 - x : x;
  y = y < 0 ? -y : y >= height ? 2 * height - 2 - y : y;
  size_t index = (size_t)((y < 0 || y >= height ? 0 : y) * width + (x < 0 || x >= width ? 0 : x));
  return fixture->plan.input.dtype == ELEMENT_FLOAT32 ? ((const float *)fixture->input)[index]
                                                      : ((const uint8_t *)fixture->input)[index];
}

static double expected(const struct stage_fixture *fixture, int64_t x, int64_t y, int output, double scale) {
  double across = 0;
  double down = 0;
  for (int64_t i = -1; i <= 1; i++) {
    across += (i == 0 ? 2 : 1) * (sample(fixture, x + 1, y + i) - sample(fixture, x - 1, y + i));
    down += (i == 0 ? 2 : 1) * (sample(fixture, x + i, y + 1) - sample(fixture, x + i, y - 1));
  }
  return scale * (output == SOBEL_MAGNITUDE ? hypot(across, down) : fabs(output == SOBEL_X ? across : down));
}

static bool close_to(const struct stage_fixture *fixture, size_t index, double exact) {
  if (fixture->plan.input.dtype == ELEMENT_FLOAT32) {
    return fabs(((const float *)fixture->output)[index] - exact) <= 1e-5 * (1200 + exact);
  }
  return fabs(((const uint8_t *)fixture->output)[index] - fmin(exact, 255)) <= 0.501;
}

static void check(enum pixel_format pixels, uint32_t width, uint32_t height, int output, double scale) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &sobel_stage, format_image(pixels, width, height),
               (struct setting[]){{"output", {output}, 1}, {"scale", {scale}, 1}, {0}}, width * 64 + height);
  fixture_run(&fixture);
  ck_assert(format_equal(&fixture.plan.input, &fixture.plan.output));
  size_t wrong = 0;
  for (size_t i = 0; i < (size_t)width * height; i++) {
    double exact = expected(&fixture, (int64_t)(i % width), (int64_t)(i / width), output, scale);
    wrong += close_to(&fixture, i, exact) ? 0 : 1;
  }
  ck_assert_uint_eq(wrong, 0);
  fixture_close(&fixture);
}

START_TEST(every_output_is_the_sum_written_out) {
  static const uint32_t sides[] = {1, 2, 3, 4, 7, 16, 18, 33, 40};
  for (size_t w = 0; w < sizeof sides / sizeof sides[0]; w++) {
    for (size_t h = 0; h < sizeof sides / sizeof sides[0]; h++) {
      check(PIXELS_GRAY, sides[w], sides[h], _i, 1);
      check(PIXELS_GRAY, sides[w], sides[h], _i, 0.125);
      check(PIXELS_GRAYF32LE, sides[w], sides[h], _i, 0.7);
    }
  }
}
END_TEST

START_TEST(a_large_odd_image_has_the_same_sums) {
  check(PIXELS_GRAY, 1921, 1081, _i, 0.25);
  check(PIXELS_GRAYF32LE, 1921, 1081, _i, 1);
}
END_TEST

START_TEST(a_flat_image_has_no_edges) {
  struct stage_fixture fixture;
  fixture_open(&fixture, &sobel_stage, format_image(PIXELS_GRAY, 21, 13), (struct setting[]){{"scale", {1000}, 1}, {0}}, 0);
  memset(fixture.input, 200, fixture.plan.input_bytes);
  fixture_run(&fixture);
  for (size_t i = 0; i < fixture.plan.output_bytes; i++) {
    ck_assert_uint_eq(((const uint8_t *)fixture.output)[i], 0);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(colour_is_refused_with_what_to_do) {
  ck_assert_str_eq(fixture_problem(&sobel_stage, format_image(PIXELS_YUV420P, 8, 8), NULL),
                   "sobel takes gray and grayf32le, not yuv420p 8x8; put `convert: {to: gray}` before it");
}
END_TEST

Suite *sobel_suite(void);
Suite *sobel_suite(void) {
  Suite *suite = suite_create("sobel");
  TCase *test = tcase_create("sobel");
  tcase_set_timeout(test, 120);
  tcase_add_loop_test(test, every_output_is_the_sum_written_out, SOBEL_MAGNITUDE, SOBEL_Y + 1);
  tcase_add_test(test, a_flat_image_has_no_edges);
  tcase_add_test(test, colour_is_refused_with_what_to_do);
  suite_add_tcase(suite, test);
  TCase *large = tcase_create("large");
  tcase_set_timeout(large, 120);
  tcase_set_tags(large, NO_THREADS);
  tcase_add_loop_test(large, a_large_odd_image_has_the_same_sums, SOBEL_MAGNITUDE, SOBEL_Y + 1);
  suite_add_tcase(suite, large);
  return suite;
}
