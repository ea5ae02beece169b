/* detect: where boxes land in the picture, tables of several tensors, and order; tests/e2e/test_detect.py has every layout. */
#include "gpu/model/parts.h"
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <math.h>
#include <string.h>

extern const struct stage_descriptor detect_stage, resize_stage;

enum { YOLO5, YOLOX, YOLO8, END2END, DETR, ROW = 6 };

static struct stage_fixture fixture;

static const float *row(size_t index) { return (const float *)fixture.output + index * ROW; }

static void assert_row(size_t index, const float expected[ROW]) {
  for (size_t i = 0; i < ROW; i++) {
    ck_assert_msg(fabsf(row(index)[i] - expected[i]) <= 1e-3F, "row %zu, field %zu: %g instead of %g", index, i,
                  (double)row(index)[i], (double)expected[i]);
  }
}

static struct frame_format end2end_of(uint64_t candidates) {
  return format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, candidates, ROW}, 3);
}

static void run_on(const float *values) {
  memcpy(fixture.input, values, fixture.plan.input_bytes);
  fixture_run(&fixture);
}

/* A view as a chain makes it: the picture is shown whole, or between bars. */
static struct frame_view view_after_resize(uint32_t width, uint32_t height, double to_width, double to_height, bool letterbox) {
  struct stage_fixture resize;
  struct frame_format picture = format_image(PIXELS_GRAY, width, height);
  picture.view = format_view(&picture);
  fixture_open(&resize, &resize_stage, picture,
               SETTINGS(SET("width", to_width), SET("height", to_height), SET("fit", letterbox)), 0);
  struct frame_view view = resize.plan.output.view;
  fixture_close(&resize);
  return view;
}

START_TEST(boxes_go_back_through_a_letterbox) {
  /* 1920x1080 is a third as large in 640x640, between bars of 140. */
  struct frame_format format = end2end_of(2);
  format.view = view_after_resize(1920, 1080, 640, 640, true);
  fixture_open(&fixture, &detect_stage, format, SETTINGS(SET("layout", END2END), SET("most", 3)), 0);
  run_on((const float[]){100, 240, 200, 300, 0.5F, 7, /* beyond three edges: */ -10, 100, 700, 340, 0.75F, 1});
  assert_row(0, (const float[]){0, 0, 1920, 600, 0.75F, 1});
  assert_row(1, (const float[]){300, 300, 300, 180, 0.5F, 7});
  assert_row(2, (const float[]){0, 0, 0, 0, 0, 0});
  fixture_close(&fixture);
}
END_TEST

START_TEST(boxes_go_back_through_a_stretch) {
  struct frame_format format = end2end_of(1);
  format.view = view_after_resize(1000, 300, 500, 600, false);
  fixture_open(&fixture, &detect_stage, format, SETTINGS(SET("layout", END2END), SET("most", 1)), 0);
  run_on((const float[]){50, 60, 100, 120, 1, 0});
  assert_row(0, (const float[]){100, 30, 100, 30, 1, 0});
  fixture_close(&fixture);
}
END_TEST

START_TEST(shares_of_detr_are_of_the_networks_input) {
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, 5}, 2);
  format.view = view_after_resize(1920, 1080, 640, 640, true);
  fixture_open(&fixture, &detect_stage, format, SETTINGS(SET("layout", DETR), SET("most", 1)), 0);
  run_on((const float[]){0.5F, 0.5F, 0.25F, 0.125F, 0});
  assert_row(0, (const float[]){720, 420, 480, 240, 0.5F, 0});
  fixture_close(&fixture);
}
END_TEST

/* Two tensors, either of which may come first. */
START_TEST(detr_takes_a_table_of_two_tensors) {
  enum { QUERIES = 3, CLASSES = 2 };
  static const float boxes[QUERIES][4] = {{0.5F, 0.5F, 1, 1}, {0.25F, 0.25F, 0.5F, 0.5F}, {0.75F, 0.5F, 0.5F, 1}};
  static const float logits[QUERIES][CLASSES] = {{-9, -9}, {-9, 2}, {3, 1}};
  struct frame_format box_format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, QUERIES, 4}, 3);
  struct frame_format logit_format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, QUERIES, CLASSES}, 3);
  struct parts parts = {.magic = PARTS_MAGIC};
  const size_t first = _i == 0 ? sizeof boxes : sizeof logits;
  const size_t second = _i == 0 ? sizeof logits : sizeof boxes;
  parts_add(&parts, _i == 0 ? &box_format : &logit_format, first);
  parts_add(&parts, _i == 0 ? &logit_format : &box_format, second);
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){parts_bytes(&parts)}, 1);
  format.parts = &parts;
  fixture_open(&fixture, &detect_stage, format, SETTINGS(SET("layout", DETR), SET("most", 3), SET("score", 0.5)), 0);
  memcpy((char *)fixture.input + parts.parts[0].offset, _i == 0 ? (const void *)boxes : logits, first);
  memcpy((char *)fixture.input + parts.parts[1].offset, _i == 0 ? (const void *)logits : boxes, second);
  fixture_run(&fixture);
  assert_row(0, (const float[]){0.5F, 0, 0.5F, 1, 0.952574F, 0});
  assert_row(1, (const float[]){0, 0, 0.5F, 0.5F, 0.880797F, 1});
  assert_row(2, (const float[]){0, 0, 0, 0, 0, 0});
  fixture_close(&fixture);
}
END_TEST

/* 64 x 32: 8 x 4 cells of 8, 4 x 2 of 16, 2 x 1 of 32. */
START_TEST(the_grids_of_yolox_have_the_sides_of_the_input) {
  enum { CELLS = 32 + 8 + 2, FIELDS = 6 };
  static float values[CELLS][FIELDS];
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){1, CELLS, FIELDS}, 3);
  struct frame_format image = format_image(PIXELS_RGB24, 64, 32);
  format.view = format_view(&image);
  memcpy(values[8 + 3], (const float[]){0.5F, 0.25F, 0, 0, 1, 0.75F}, sizeof values[0]);
  memcpy(values[41], (const float[]){0.5F, 0.5F, -0.69314718F, 0, 1, 0.5F}, sizeof values[0]);
  fixture_open(&fixture, &detect_stage, format, SETTINGS(SET("layout", YOLOX), SET("most", 3)), 0);
  run_on(values[0]);
  assert_row(0, (const float[]){24, 6, 8, 8, 0.75F, 0});
  assert_row(1, (const float[]){40, 0, 16, 32, 0.5F, 0});
  assert_row(2, (const float[]){0, 0, 0, 0, 0, 0});
  fixture_close(&fixture);
}
END_TEST

START_TEST(at_a_tie_the_earlier_candidate_and_class_come_first) {
  static const float values[6][4] = {{10, 30, 10, 30}, {10, 10, 10, 10},           {4, 4, 4, 4},
                                     {4, 4, 4, 4},     {0.5F, 0.5F, 0.25F, 0.75F}, {0.5F, 0.25F, 0.5F, 0.75F}};
  fixture_open(&fixture, &detect_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){6, 4}, 2),
               SETTINGS(SET("layout", YOLO8), SET("most", 4)), 0);
  run_on(values[0]);
  assert_row(0, (const float[]){28, 8, 4, 4, 0.75F, 0});
  assert_row(1, (const float[]){8, 8, 4, 4, 0.5F, 0});
  assert_row(2, (const float[]){8, 8, 4, 4, 0.5F, 1}); /* on one of another class */
  assert_row(3, (const float[]){0, 0, 0, 0, 0, 0});    /* candidate 1 lies on a better one of its class */
  fixture_close(&fixture);
}
END_TEST

START_TEST(results_are_boxes_of_a_fixed_size) {
  fixture_open(&fixture, &detect_stage, end2end_of(1), SETTINGS(SET("layout", END2END)), 0);
  struct frame_format expected = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){100, ROW}, 2);
  ck_assert(format_equal(&fixture.plan.output, &expected));
  ck_assert_int_eq(fixture.plan.output.meaning, MEANING_BOXES);
  fixture_close(&fixture);
}
END_TEST

Suite *detect_suite(void);

Suite *detect_suite(void) {
  Suite *suite = suite_create("detect");
  TCase *tcase = tcase_create("detect");
  tcase_add_test(tcase, boxes_go_back_through_a_letterbox);
  tcase_add_test(tcase, boxes_go_back_through_a_stretch);
  tcase_add_test(tcase, shares_of_detr_are_of_the_networks_input);
  tcase_add_loop_test(tcase, detr_takes_a_table_of_two_tensors, 0, 2);
  tcase_add_test(tcase, the_grids_of_yolox_have_the_sides_of_the_input);
  tcase_add_test(tcase, at_a_tie_the_earlier_candidate_and_class_come_first);
  tcase_add_test(tcase, results_are_boxes_of_a_fixed_size);
  suite_add_tcase(suite, tcase);
  return suite;
}
