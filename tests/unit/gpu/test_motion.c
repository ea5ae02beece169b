/* motion: the background over a sequence, masks over all sizes, and how boxes are found and put in order. */
#include "tests/unit/gpu/stage_fixture.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct stage_descriptor motion_stage;

enum { ROW = 5, WIDTH = 100, HEIGHT = 70, CELL = 10 };

static struct stage_fixture fixture;

static uint8_t *input(void) { return fixture.input; }
static const uint8_t *mask(void) { return fixture.output; }
static const float *row(size_t index) { return (const float *)fixture.output + index * ROW; }

/* -- masks --------------------------------------------------------------------------------------------------------- */

START_TEST(the_first_frame_is_the_background) {
  fixture_open(&fixture, &motion_stage, format_image(PIXELS_GRAY, 31, 9), NULL, 5);
  for (int session = 0; session < 2; session++) {
    fixture_fill(&fixture, (uint32_t)session);
    fixture_run(&fixture);
    ck_assert_mem_eq(mask(), (const uint8_t[31 * 9]){0}, 31 * 9);
    fixture_restart(&fixture);
  }
  fixture_close(&fixture);
}
END_TEST

/* One pixel at a time: how the background follows, seen through where the mask goes out. */
START_TEST(the_background_follows_by_its_rate) {
  const struct setting settings[] = {SET("rate", 0.5), SET("threshold", 20), {0}};
  static const uint8_t frames[] = {100, 120, 121, 180, 180, 180, 180, 60};
  /* background before each:       100  100  110  115.5 147.75 163.9 171.9 176 */
  static const uint8_t expected[] = {0, 0, 0, 255, 255, 0, 0, 255};
  fixture_open(&fixture, &motion_stage, format_image(PIXELS_GRAY, 1, 1), settings, 0);
  for (size_t i = 0; i < sizeof frames; i++) {
    input()[0] = frames[i];
    fixture_run(&fixture);
    ck_assert_msg(mask()[0] == expected[i], "frame %zu gives %u", i, mask()[0]);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(rate_0_keeps_the_first_frame_and_rate_1_the_last) {
  for (int rate = 0; rate < 2; rate++) {
    const struct setting settings[] = {SET("rate", rate), SET("threshold", 0), {0}};
    fixture_open(&fixture, &motion_stage, format_image(PIXELS_GRAY, 1, 1), settings, 0);
    static const uint8_t frames[] = {10, 50, 50, 10};
    static const uint8_t expected[2][4] = {{0, 255, 255, 0}, {0, 255, 0, 255}};
    for (size_t i = 0; i < sizeof frames; i++) {
      input()[0] = frames[i];
      fixture_run(&fixture);
      ck_assert_uint_eq(mask()[0], expected[rate][i]);
    }
    fixture_close(&fixture);
  }
}
END_TEST

START_TEST(masks_of_all_sizes_follow_a_plain_model) {
  const double rate = 0.25; /* exact, and so is the background over few frames */
  const struct setting settings[] = {SET("rate", rate), SET("threshold", 60), {0}};
  for (size_t s = 0; fixture_sizes[s][0]; s++) {
    fixture_open(&fixture, &motion_stage, format_image(PIXELS_GRAY, fixture_sizes[s][0], fixture_sizes[s][1]), settings, 0);
    size_t pixels = fixture.plan.input_bytes;
    double *background = calloc(pixels, sizeof *background);
    uint8_t *expected = malloc(pixels);
    ck_assert(background && expected);
    for (uint32_t frame = 0; frame < 5; frame++) {
      fixture_fill(&fixture, frame);
      fixture_run(&fixture);
      for (size_t i = 0; i < pixels; i++) {
        background[i] = frame == 0 ? input()[i] : background[i];
        expected[i] = fabs(input()[i] - background[i]) > 60 ? 255 : 0;
        background[i] += rate * (input()[i] - background[i]);
      }
      ck_assert_mem_eq(mask(), expected, pixels);
    }
    free(expected);
    free(background);
    fixture_close(&fixture);
  }
}
END_TEST

/* -- boxes --------------------------------------------------------------------------------------------------------- */

static void paint(uint32_t x, uint32_t y, uint32_t width, uint32_t height) {
  for (uint32_t line = y; line < y + height; line++) {
    memset(input() + line * fixture.plan.input.width + x, 255, width);
  }
}

/* A black background has been seen; what is painted next has changed. */
static void open_black(uint32_t width, uint32_t height, unsigned boxes, double fill) {
  const struct setting settings[] = {SET("output", 1), SET("boxes", boxes), SET("cell", CELL), SET("fill", fill), {0}};
  fixture_open(&fixture, &motion_stage, format_image(PIXELS_GRAY, width, height), settings, 0);
  memset(fixture.input, 0, fixture.plan.input_bytes);
  fixture_run(&fixture);
}

static void assert_row(size_t index, float a, float b, float c, float d, float e) {
  const float expected[ROW] = {a, b, c, d, e};
  for (size_t i = 0; i < ROW; i++) {
    ck_assert_msg(fabsf(row(index)[i] - expected[i]) < 1e-6F, "row %zu has %g at %zu, not %g", index, (double)row(index)[i], i,
                  (double)expected[i]);
  }
}

START_TEST(nothing_changed_gives_no_box) {
  open_black(WIDTH, HEIGHT, 3, 0.1);
  struct frame_format expected = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){4, ROW}, 2);
  ck_assert(format_equal(&fixture.plan.output, &expected));
  for (size_t i = 0; i < 4; i++) {
    assert_row(i, 0, 0, 0, 0, 0);
  }
  fixture_close(&fixture);
}
END_TEST

START_TEST(boxes_cover_whole_cells) {
  open_black(WIDTH, HEIGHT, 3, 0.1);
  paint(12, 25, 20, 10); /* cells 1 to 3 and 2 to 3 */
  fixture_run(&fixture);
  assert_row(0, 1, 1, 200.0F / (WIDTH * HEIGHT), 0, 0);
  assert_row(1, 10, 20, 30, 20, 200);
  assert_row(2, 0, 0, 0, 0, 0);
  fixture_close(&fixture);
}
END_TEST

START_TEST(cells_at_the_edges_are_cut_off) {
  open_black(97, 63, 3, 1);
  paint(90, 60, 7, 3); /* all of the last cell */
  fixture_run(&fixture);
  assert_row(0, 1, 1, 21.0F / (97 * 63), 0, 0);
  assert_row(1, 90, 60, 7, 3, 21);
  fixture_close(&fixture);
}
END_TEST

START_TEST(larger_groups_come_first_and_the_rest_is_counted) {
  open_black(WIDTH, HEIGHT, 2, 0.1);
  paint(0, 0, 5, 5);    /* 25 pixels */
  paint(40, 0, 6, 6);   /* 36 */
  paint(80, 50, 20, 9); /* 180 */
  fixture_run(&fixture);
  assert_row(0, 2, 3, 241.0F / (WIDTH * HEIGHT), 0, 0);
  assert_row(1, 80, 50, 20, 10, 180);
  assert_row(2, 40, 0, 10, 10, 36);
  fixture_close(&fixture);
}
END_TEST

START_TEST(equal_groups_come_in_reading_order) {
  open_black(WIDTH, HEIGHT, 3, 0.1);
  paint(60, 10, 5, 5);
  paint(30, 40, 5, 5);
  paint(20, 10, 5, 5);
  fixture_run(&fixture);
  assert_row(1, 20, 10, 10, 10, 25);
  assert_row(2, 60, 10, 10, 10, 25);
  assert_row(3, 30, 40, 10, 10, 25);
  fixture_close(&fixture);
}
END_TEST

/* Corners join in both directions, and a U is one group although its arms are met first. */
START_TEST(cells_that_touch_are_one_group) {
  open_black(WIDTH, HEIGHT, 4, 0.1);
  paint(0, 0, 10, 10);
  paint(10, 10, 10, 10); /* down to the right of it */
  paint(0, 20, 10, 10);  /* down to the left of that */
  paint(50, 0, 10, 30);
  paint(70, 0, 10, 30);
  paint(60, 30, 10, 10);
  fixture_run(&fixture);
  ck_assert_float_eq(row(0)[1], 2);
  assert_row(1, 50, 0, 30, 40, 700);
  assert_row(2, 0, 0, 20, 30, 300);
  fixture_close(&fixture);
}
END_TEST

START_TEST(a_cell_counts_from_its_share_on) {
  open_black(WIDTH, HEIGHT, 2, 0.25);
  paint(0, 0, 5, 5);  /* 25 of 100: just enough */
  paint(50, 0, 6, 4); /* 24 */
  fixture_run(&fixture);
  assert_row(0, 1, 1, 49.0F / (WIDTH * HEIGHT), 0, 0);
  assert_row(1, 0, 0, 10, 10, 25);
  fixture_close(&fixture);
  open_black(WIDTH, HEIGHT, 2, 0); /* one changed pixel is enough, none is not */
  paint(99, 69, 1, 1);
  fixture_run(&fixture);
  assert_row(0, 1, 1, 1.0F / (WIDTH * HEIGHT), 0, 0);
  assert_row(1, 90, 60, 10, 10, 1);
  fixture_close(&fixture);
}
END_TEST

/* -- boxes against a plain model ------------------------------------------------------------------------------------ */

struct model {
  uint32_t columns, rows;
  uint32_t changed[64 * 64];
  bool active[64 * 64];
};

static void model_count(struct model *model, uint32_t width, uint32_t height) {
  *model = (struct model){.columns = (width + CELL - 1) / CELL, .rows = (height + CELL - 1) / CELL};
  for (uint32_t i = 0; i < width * height; i++) {
    model->changed[i / width / CELL * model->columns + i % width / CELL] += input()[i] == 255;
  }
  for (uint32_t i = 0; i < model->columns * model->rows; i++) {
    model->active[i] = model->changed[i] > 0;
  }
}

/* Removes the group of this cell and gives its changed pixels. */
static uint32_t model_take(struct model *model, int64_t column, int64_t line) {
  if (column < 0 || line < 0 || column >= model->columns || line >= model->rows ||
      !model->active[line * model->columns + column]) {
    return 0;
  }
  uint32_t sum = model->changed[line * model->columns + column];
  model->active[line * model->columns + column] = false;
  for (int64_t i = 0; i < 9; i++) {
    sum += model_take(model, column - 1 + i % 3, line - 1 + i / 3);
  }
  return sum;
}

static void compare_with_model(uint32_t width, uint32_t height) {
  static struct model model;
  uint32_t found = 0;
  double listed = 0;
  model_count(&model, width, height);
  for (uint32_t i = 0; i < model.columns * model.rows; i++) {
    uint32_t changed = model_take(&model, i % model.columns, i / model.columns);
    found += changed > 0;
    bool is_listed = false;
    for (size_t box = 1; box <= (size_t)row(0)[0]; box++) {
      is_listed = is_listed || row(box)[4] == (float)changed;
    }
    ck_assert(changed == 0 || is_listed);
  }
  for (size_t box = 1; box <= (size_t)row(0)[0]; box++) {
    listed += (double)row(box)[4];
    ck_assert(box == 1 || row(box)[4] <= row(box - 1)[4]);
  }
  ck_assert_float_eq(row(0)[0], (float)found);
  ck_assert_float_eq(row(0)[1], (float)found);
  ck_assert_double_eq_tol(listed, (double)row(0)[2] * width * height, 0.5);
}

START_TEST(random_frames_give_the_groups_of_a_plain_search) {
  for (size_t s = 0; fixture_sizes[s][0]; s++) {
    const uint32_t width = fixture_sizes[s][0] < 600 ? fixture_sizes[s][0] : 600;
    for (uint32_t density = 1; density <= 5; density++) {
      open_black(width, fixture_sizes[s][1], 256, 0);
      fixture_fill(&fixture, density);
      for (size_t i = 0; i < fixture.plan.input_bytes; i++) {
        input()[i] = input()[i] % 200 < density ? 255 : 0;
      }
      fixture_run(&fixture);
      compare_with_model(width, fixture_sizes[s][1]);
      fixture_close(&fixture);
    }
  }
}
END_TEST

START_TEST(motion_says_what_it_does_not_take) {
  const char *problem = fixture_problem(&motion_stage, format_image(PIXELS_RGB24, 8, 8), NULL);
  ck_assert_str_eq(problem, "motion takes gray, not rgb24 8x8; put `convert: {to: gray}` before it");
  problem = fixture_problem(&motion_stage, format_image(PIXELS_GRAY, 8, 8), SETTINGS(SET("cell", 8)));
  ck_assert_str_eq(problem, "`cell` has no effect on a mask; leave it out or add `output: boxes`");
}
END_TEST

Suite *motion_suite(void);

Suite *motion_suite(void) {
  Suite *suite = suite_create("motion");
  TCase *masks = tcase_create("masks");
  tcase_add_test(masks, the_first_frame_is_the_background);
  tcase_add_test(masks, the_background_follows_by_its_rate);
  tcase_add_test(masks, rate_0_keeps_the_first_frame_and_rate_1_the_last);
  tcase_add_test(masks, masks_of_all_sizes_follow_a_plain_model);
  suite_add_tcase(suite, masks);
  TCase *boxes = tcase_create("boxes");
  tcase_add_test(boxes, nothing_changed_gives_no_box);
  tcase_add_test(boxes, boxes_cover_whole_cells);
  tcase_add_test(boxes, cells_at_the_edges_are_cut_off);
  tcase_add_test(boxes, larger_groups_come_first_and_the_rest_is_counted);
  tcase_add_test(boxes, equal_groups_come_in_reading_order);
  tcase_add_test(boxes, cells_that_touch_are_one_group);
  tcase_add_test(boxes, a_cell_counts_from_its_share_on);
  tcase_add_test(boxes, random_frames_give_the_groups_of_a_plain_search);
  tcase_add_test(boxes, motion_says_what_it_does_not_take);
  suite_add_tcase(suite, boxes);
  return suite;
}
