/* The parity test's own parts: that it sees what differs, and that its cases reach all there is. */
#include "tests/gpu/cases.h"
#include "tests/gpu/compare.h"

#include <check.h>
#include <math.h>
#include <string.h>

static struct difference difference;

static bool bytes_beyond(uint8_t a, uint8_t b) {
  difference = (struct difference){0};
  compare_bytes(&difference, (const uint8_t[]){7, a, 9}, (const uint8_t[]){7, b, 9}, 3);
  return difference.beyond;
}

/* Beside a value of 1000, so the floor is 1e-4. */
static bool floats_beyond(float a, float b) {
  difference = (struct difference){0};
  compare_floats(&difference, (const float[]){1000, a}, (const float[]){1000, b}, 2);
  return difference.beyond;
}

START_TEST(bytes_may_be_one_level_apart) {
  ck_assert(!bytes_beyond(10, 10));
  ck_assert_uint_eq(difference.unequal, 0);
  ck_assert(!bytes_beyond(10, 11));
  ck_assert_uint_eq(difference.unequal, 1);
  ck_assert_uint_eq(difference.samples, 3);
  ck_assert(bytes_beyond(10, 12));
  ck_assert(bytes_beyond(255, 0));
  ck_assert_uint_eq(difference.first, 1);
  ck_assert_double_eq(difference.worst, 255);
}
END_TEST

START_TEST(floats_may_be_apart_by_a_share) {
  ck_assert(!floats_beyond(100, 100));
  ck_assert(!floats_beyond(100, 100.0005F));
  ck_assert(floats_beyond(100, 100.002F));
  ck_assert(floats_beyond(-100, 100));
  ck_assert(!floats_beyond(0, 5e-5F));
  ck_assert(floats_beyond(0, 2e-4F));
}
END_TEST

START_TEST(special_floats_equal_only_themselves) {
  ck_assert(!floats_beyond(NAN, NAN));
  ck_assert(!floats_beyond(INFINITY, INFINITY));
  ck_assert(!floats_beyond(0.0F, -0.0F));
  ck_assert(floats_beyond(NAN, 1));
  ck_assert(floats_beyond(1, NAN));
  ck_assert(floats_beyond(INFINITY, -INFINITY));
  ck_assert(floats_beyond(INFINITY, 1));
}
END_TEST

static bool is_taken(const struct stage_about *stage, const struct frame_format *format, const struct stage_value *values) {
  char problem[STAGE_TEXT];
  struct stage_plan plan = {.stage = stage_of(stage), .input = *format, .source = format_image(PIXELS_GRAY, 64, 48)};
  plan.input.meaning = MEANING_BOXES; /* for draw, which detect leads to */
  return plan.stage->prepare(&plan, values, problem);
}

static bool same_values(const struct stage_value *a, const struct stage_value *b) {
  return a->given == b->given && a->count == b->count && memcmp(a->numbers, b->numbers, sizeof a->numbers) == 0;
}

/* For each stage: some format takes the case, and every choice of every parameter is in a case that is taken. */
START_TEST(cases_reach_every_choice_of_every_stage) {
  static struct stage_value sets[CASES_MAX_SETS][STAGE_MAX_PARAMETERS];
  struct frame_format formats[CASES_MAX_FORMATS];
  const struct cases_size size = {64, 48, CASES_SMALL};
  unsigned format_count = cases_formats(&size, formats);
  for (const struct stage_about *const *stage = stage_abouts; *stage; stage++) {
    unsigned set_count = cases_values(*stage, &size, 1, sets);
    for (unsigned p = 0; p < (*stage)->parameter_count; p++) {
      const struct stage_parameter *parameter = (*stage)->parameters + p;
      uint64_t reached = 0;
      for (unsigned i = 0; i < set_count * format_count && parameter->type == STAGE_CHOICE; i++) {
        if (is_taken(*stage, formats + i % format_count, sets[i / format_count])) {
          reached |= UINT64_C(1) << (unsigned)sets[i / format_count][p].numbers[0];
        }
      }
      for (unsigned choice = 0; parameter->type == STAGE_CHOICE && parameter->choices[choice]; choice++) {
        ck_assert_msg(reached >> choice & 1, "%s: {%s: %s} is in no case", (*stage)->name, parameter->name,
                      parameter->choices[choice]);
      }
    }
  }
}
END_TEST

START_TEST(cases_have_whole_parts_of_the_size_with_every_filter) {
  static struct stage_value sets[CASES_MAX_SETS][STAGE_MAX_PARAMETERS];
  const struct cases_size size = {64, 48, CASES_SMALL};
  unsigned count = cases_values(stage_about_find("resize"), &size, 1, sets);
  unsigned seen[3] = {0};
  for (unsigned i = 0; i < count; i++) {
    unsigned share = (unsigned)(64 / sets[i][0].numbers[0]);
    if (sets[i][0].numbers[0] * share == 64 && sets[i][1].numbers[0] * share == 48) {
      seen[(unsigned)sets[i][2].numbers[0]] |= share;
    }
  }
  for (unsigned filter = 0; filter < 3; filter++) {
    ck_assert_uint_eq(seen[filter] & 15, 15);
  }
}
END_TEST

START_TEST(a_seed_always_gives_the_same_case) {
  static struct stage_value sets[3][CASES_MAX_SETS][STAGE_MAX_PARAMETERS];
  const struct stage_about *stage = stage_about_find("affine");
  const struct cases_size size = {64, 48, CASES_SMALL};
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1000}, 1);
  float frames[3][1000];
  unsigned count = 0;
  for (size_t i = 0; i < 3; i++) {
    count = cases_values(stage, &size, 5 + i / 2, sets[i]);
    cases_fill(&format, frames[i], 5 + i / 2, 2);
  }
  ck_assert(same_values(&sets[0][count - 1][0], &sets[1][count - 1][0]));
  ck_assert_mem_eq(frames[0], frames[1], sizeof frames[0]);
  ck_assert_mem_ne(frames[0], frames[2], sizeof frames[0]);
}
END_TEST

Suite *parity_suite(void);

Suite *parity_suite(void) {
  Suite *suite = suite_create("parity");
  TCase *tcase = tcase_create("parity");
  tcase_add_test(tcase, bytes_may_be_one_level_apart);
  tcase_add_test(tcase, floats_may_be_apart_by_a_share);
  tcase_add_test(tcase, special_floats_equal_only_themselves);
  tcase_add_test(tcase, cases_reach_every_choice_of_every_stage);
  tcase_add_test(tcase, cases_have_whole_parts_of_the_size_with_every_filter);
  tcase_add_test(tcase, a_seed_always_gives_the_same_case);
  suite_add_tcase(suite, tcase);
  return suite;
}
