/* top, mask and image of small tensors, what they do not take, and float16; tests/e2e/test_after_models.py has large ones. */
#include "gpu/stages/arithmetic.h"
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

extern const struct stage_descriptor top_stage, mask_stage, image_stage;

static struct stage_fixture fixture;

static void open_with(const struct stage_descriptor *stage, const uint64_t *shape, uint32_t rank,
                      const struct setting *settings, const float *values) {
  fixture_open(&fixture, stage, format_tensor(ELEMENT_FLOAT32, shape, rank), settings, 0);
  memcpy(fixture.input, values, fixture.plan.input_bytes);
  fixture_run(&fixture);
}

static float number(size_t index) { return ((const float *)fixture.output)[index]; }
static unsigned level(size_t index) { return ((const uint8_t *)fixture.output)[index]; }

/* -- top ------------------------------------------------------------------------------------------------------------ */

START_TEST(equal_scores_come_in_the_order_of_their_classes) {
  open_with(&top_stage, (uint64_t[]){1, 6}, 2, SETTINGS(SET("k", 4)), (const float[]){-1, 2, -0.0F, 2, 0, -3});
  ck_assert_int_eq(fixture.plan.output.meaning, MEANING_CLASSES);
  ck_assert_uint_eq(fixture.plan.output.shape[0], 4);
  const float expected[] = {1, 2, 3, 2, 2, 0, 4, 0};
  for (size_t i = 0; i < 8; i++) {
    ck_assert_float_eq(number(i), expected[i]);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(shares_of_softmax_add_up_to_one) {
  float values[3000];
  for (size_t i = 0; i < 3000; i++) {
    values[i] = (float)(i % 7) * 10 - 30;
  }
  values[5] = INFINITY; /* as the largest float: all others are nothing beside it */
  open_with(&top_stage, (uint64_t[]){3000}, 1, SETTINGS(SET("k", 1000), SET("softmax", 1)), values);
  ck_assert_float_eq(number(0), 5);
  ck_assert_float_eq(number(1), 1);
  fixture_close(&fixture);
  values[5] = -INFINITY;
  open_with(&top_stage, (uint64_t[]){3000}, 1, SETTINGS(SET("k", 1000), SET("softmax", 1)), values);
  double sum = 0;
  for (size_t i = 0; i < 1000; i++) {
    sum += (double)number(2 * i + 1);
  }
  ck_assert_double_eq_tol(sum, 1, 1e-5); /* the 428 classes of the largest share have nearly all */
  fixture_close(&fixture);
}
END_TEST

START_TEST(top_takes_one_list) {
  ck_assert_ptr_nonnull(fixture_problem(&top_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){2, 3}, 2), NULL));
  ck_assert_ptr_nonnull(fixture_problem(&top_stage, format_tensor(ELEMENT_UINT8, (uint64_t[]){3}, 1), NULL));
  ck_assert_ptr_nonnull(fixture_problem(&top_stage, format_image(PIXELS_GRAYF32LE, 3, 1), NULL));
  ck_assert_ptr_null(fixture_problem(&top_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, 3, 1}, 3), NULL));
}
END_TEST

/* -- mask and image ------------------------------------------------------------------------------------------------- */

START_TEST(a_mask_takes_the_first_of_equal_classes) {
  open_with(&mask_stage, (uint64_t[]){1, 3, 1, 4}, 4, SETTINGS(SET("scale", 100)),
            (const float[]){1, 0, NAN, -5, 1, 2, 0, -4, 0, 2, -1, -3});
  const struct frame_format expected = format_image(PIXELS_GRAY, 4, 1);
  ck_assert(format_equal(&fixture.plan.output, &expected));
  ck_assert_uint_eq(level(0), 0);
  ck_assert_uint_eq(level(1), 100);
  ck_assert_uint_eq(level(2), 100);
  ck_assert_uint_eq(level(3), 200);
  fixture_close(&fixture);
}
END_TEST

START_TEST(a_mask_of_one_class_is_refused) {
  const char *problem = fixture_problem(&mask_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, 5, 5}, 3), NULL);
  ck_assert_str_eq(problem,
                   "mask takes float32 [classes, height, width] of at least two classes, not float32[1,5,5]; put `image` "
                   "and `threshold` in its place");
}
END_TEST

START_TEST(an_image_has_a_scale_and_offset_for_each_plane) {
  open_with(&image_stage, (uint64_t[]){3, 1, 2}, 3, SETTINGS(SET("scale", 1, 10, 100), SET("offset", 5, 0, -50)),
            (const float[]){1, NAN, 2, 300, 3, -1});
  const unsigned expected[] = {6, 20, 250, 0, 255, 0};
  for (size_t i = 0; i < 6; i++) {
    ck_assert_uint_eq(level(i), expected[i]);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(numbers_of_planes_go_with_their_plane_in_any_order) {
  open_with(&image_stage, (uint64_t[]){3, 1, 1}, 3, SETTINGS(SET("channels", 1), SET("scale", 1, 10, 100)),
            (const float[]){1, 2, 2});
  const unsigned expected[] = {200, 20, 1};
  for (size_t i = 0; i < 3; i++) {
    ck_assert_uint_eq(level(i), expected[i]);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(an_image_has_one_or_three_planes) {
  ck_assert_ptr_nonnull(fixture_problem(&image_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){2, 5, 5}, 3), NULL));
  ck_assert_ptr_nonnull(fixture_problem(&image_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){2, 3, 5, 5}, 4), NULL));
  ck_assert_ptr_nonnull(fixture_problem(&image_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){3, 5}, 2), NULL));
}
END_TEST

/* -- arithmetic ----------------------------------------------------------------------------------------------------- */

static double half_value(unsigned bits) {
  const unsigned exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  return exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
}

static void assert_half(double value, unsigned bits) {
  if (arithmetic_half((float)value) != bits || arithmetic_half((float)-value) != (bits | 0x8000)) {
    ck_abort_msg("%.9g is %#x and not %#x", value, arithmetic_half((float)value), bits);
  }
}

/* Every float16, what lies in the middle between it and the next, and what lies on either side of that. */
START_TEST(floats_become_the_nearest_float16) {
  for (unsigned bits = 0; bits < 0x7c00; bits++) {
    const double middle = (half_value(bits) + half_value(bits + 1)) / 2;
    assert_half(half_value(bits), bits);
    assert_half((double)nextafterf((float)middle, 0), bits);
    assert_half(middle, bits + bits % 2);
    assert_half((double)nextafterf((float)middle, INFINITY), bits + 1);
  }
  assert_half((double)INFINITY, 0x7c00);
  assert_half((double)FLT_MAX, 0x7c00);
  ck_assert_uint_eq(arithmetic_half(NAN), 0x7fff);
}
END_TEST

START_TEST(powers_are_near_those_of_the_library) {
  for (float x = -87; x < 88; x += 0.0137F) {
    const double expected = exp((double)x);
    if (fabs((double)arithmetic_exp(x) - expected) > 3e-7 * expected) {
      ck_abort_msg("exp(%g) is %.9g and not %.9g", (double)x, (double)arithmetic_exp(x), expected);
    }
  }
  ck_assert_float_eq(arithmetic_exp(0), 1);
  ck_assert_float_eq(arithmetic_exp(-INFINITY), arithmetic_exp(-87));
  ck_assert_float_eq(arithmetic_exp(INFINITY), arithmetic_exp(88));
  ck_assert_float_eq(arithmetic_exp(NAN), arithmetic_exp(-87));
}
END_TEST

Suite *planes_suite(void);

Suite *planes_suite(void) {
  Suite *suite = suite_create("planes");
  TCase *tcase = tcase_create("planes");
  tcase_add_test(tcase, equal_scores_come_in_the_order_of_their_classes);
  tcase_add_test(tcase, shares_of_softmax_add_up_to_one);
  tcase_add_test(tcase, top_takes_one_list);
  tcase_add_test(tcase, a_mask_takes_the_first_of_equal_classes);
  tcase_add_test(tcase, a_mask_of_one_class_is_refused);
  tcase_add_test(tcase, an_image_has_a_scale_and_offset_for_each_plane);
  tcase_add_test(tcase, numbers_of_planes_go_with_their_plane_in_any_order);
  tcase_add_test(tcase, an_image_has_one_or_three_planes);
  tcase_add_test(tcase, floats_become_the_nearest_float16);
  tcase_add_test(tcase, powers_are_near_those_of_the_library);
  suite_add_tcase(suite, tcase);
  return suite;
}
