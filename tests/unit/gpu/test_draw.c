/* draw: outlines, labels and chroma, pixel by pixel, in every format. */
#include "tests/unit/gpu/stage_fixture.h"

#include "gpu/stages/labels.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct stage_descriptor draw_stage;

enum { WIDTH = 60, HEIGHT = 40, ROW = 6, BOXES = 3, LETTER = 6 };

static struct stage_fixture fixture;
static const char *const names[] = {"a", "bc"};

static void open_on(enum pixel_format pixels, const struct setting *settings, const float boxes[BOXES][ROW]) {
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){BOXES, ROW}, 2);
  format.meaning = MEANING_BOXES;
  fixture_open_with(&fixture, &draw_stage, format, format_image(pixels, WIDTH, HEIGHT), settings, 1);
  memcpy(fixture.input, boxes, fixture.plan.input_bytes);
  fixture.plan.labels = names;
  fixture.plan.label_count = 2;
  ck_assert(fixture.plan.takes_source);
  fixture_run(&fixture);
}

static uint8_t after(size_t x, size_t y) { return ((const uint8_t *)fixture.output)[y * WIDTH + x]; }
static uint8_t before(size_t x, size_t y) { return ((const uint8_t *)fixture.source)[y * WIDTH + x]; }

static bool is_in(size_t x, size_t y, size_t left, size_t top, size_t right, size_t bottom) {
  return x >= left && x < right && y >= top && y < bottom;
}

/* The label of a class of one letter has 6 letters, of 6 pixels each and one, and is 9 high. */
START_TEST(an_outline_and_its_label_are_all_that_changes) {
  open_on(PIXELS_GRAY, SETTINGS(SET("thickness", 2)), (const float[BOXES][ROW]){{10, 15, 40, 20, 0.87F, 0}});
  const uint8_t level = after(11, 16);
  for (size_t y = 0; y < HEIGHT; y++) {
    for (size_t x = 0; x < WIDTH; x++) {
      bool outline = is_in(x, y, 10, 15, 50, 35) && !is_in(x, y, 12, 17, 48, 33);
      bool label = is_in(x, y, 10, 6, 10 + 6 * LETTER + 1, 15);
      bool good = label ? after(x, y) == level || after(x, y) == 0 : after(x, y) == (outline ? level : before(x, y));
      ck_assert_msg(good, "%zu, %zu: %u", x, y, after(x, y));
    }
  }
  fixture_close(&fixture);
}
END_TEST

/* Small letters are capitals; the name is followed by a space and the score. */
START_TEST(labels_are_written_in_five_by_seven_pixels) {
  open_on(PIXELS_GRAY, NULL, (const float[BOXES][ROW]){{0, 9, 30, 30, 0.5F, 0}});
  /* The A, its margin being one. */
  static const char *const letter[] = {"..X..", ".X.X.", "X...X", "X...X", "XXXXX", "X...X", "X...X"};
  for (size_t y = 0; y < 7; y++) {
    for (size_t x = 0; x < 5; x++) {
      ck_assert_msg((after(1 + x, 1 + y) == 0) == (letter[y][x] == 'X'), "%zu, %zu", x, y);
    }
  }
  /* The space, and the dot of 0.50. */
  for (size_t y = 0; y < 9; y++) {
    ck_assert_uint_ne(after(1 + LETTER + 2, y), 0);
  }
  ck_assert_uint_eq(after(1 + 3 * LETTER + 1, 1 + 6), 0);
  ck_assert_uint_ne(after(1 + 3 * LETTER + 1, 1 + 4), 0);
  fixture_close(&fixture);
}
END_TEST

START_TEST(better_boxes_hide_worse_ones) {
  open_on(PIXELS_GRAY, SETTINGS(SET("thickness", 3)),
          (const float[BOXES][ROW]){{5, 12, 20, 20, 0.9F, 1}, {5, 12, 40, 20, 0.8F, 0}});
  const uint8_t best = after(6, 30);
  const uint8_t other = after(40, 30);
  ck_assert_uint_ne(best, other);
  ck_assert_uint_eq(after(23, 20), best);
  ck_assert_uint_eq(after(15, 30), best);
  ck_assert_uint_eq(after(15, 20), before(15, 20));
  fixture_close(&fixture);
}
END_TEST

START_TEST(poor_and_unused_rows_are_not_drawn) {
  open_on(PIXELS_GRAY, SETTINGS(SET("score", 0.5)), (const float[BOXES][ROW]){{5, 12, 20, 20, 0.49F, 1}, {1, 1, 9, 9, 0, 0}});
  ck_assert_mem_eq(fixture.output, fixture.source, fixture.plan.output_bytes);
  fixture_close(&fixture);
}
END_TEST

/* Wherever a box lies, and whatever its numbers are, nothing beyond the picture is written; the memory is exact. */
START_TEST(boxes_may_lie_anywhere) {
  static const enum pixel_format formats[] = {PIXELS_GRAY, PIXELS_RGB24, PIXELS_BGR24, PIXELS_NV12, PIXELS_YUV420P};
  const float none = 0.0F / 0.0F;
  const float boxes[][BOXES][ROW] = {
      {{-50, -50, 500, 500, 1, 3}, {59, 39, 1, 1, 1, 70000}, {30, 20, 0, 0, 1, -5}},
      {{none, none, none, none, none, none}, {1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F}, {20, 20, -10, -10, 1, 12345}},
      {{58, 0, 2, 40, 0.5F, 1}, {0, 38, 60, 2, 0.5F, 1}, {0, 0, 60, 40, 0.5F, 1}},
  };
  for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
      open_on(formats[f], SETTINGS(SET("thickness", i == 2 ? 64 : 2)), boxes[i]);
      fixture_close(&fixture);
    }
  }
}
END_TEST

START_TEST(chroma_is_that_of_the_outline) {
  static const enum pixel_format formats[] = {PIXELS_NV12, PIXELS_YUV420P};
  enum { LUMA = WIDTH * HEIGHT, HALF = WIDTH / 2, CHROMA = HALF * (HEIGHT / 2) };
  uint8_t seen[2][3];
  for (size_t f = 0; f < 2; f++) {
    open_on(formats[f], SETTINGS(SET("thickness", 4)), (const float[BOXES][ROW]){{10, 16, 40, 20, 1, 0}});
    const uint8_t *out = fixture.output;
    const size_t at = 17 / 2 * (size_t)HALF + 20 / 2;
    seen[f][0] = after(20, 17);
    seen[f][1] = f == 0 ? out[LUMA + 2 * at] : out[LUMA + at];
    seen[f][2] = f == 0 ? out[LUMA + 2 * at + 1] : out[LUMA + CHROMA + at];
    ck_assert_mem_eq(out + LUMA + (f == 0 ? 2 : 1) * (size_t)HALF * 15,
                     (const uint8_t *)fixture.source + LUMA + (f == 0 ? 2 : 1) * (size_t)HALF * 15, 5); /* left of the box */
    fixture_close(&fixture);
  }
  ck_assert_mem_eq(seen[0], seen[1], 3);
  ck_assert_uint_lt(seen[0][1], 128); /* green */
  ck_assert_uint_lt(seen[0][2], 128);
}
END_TEST

START_TEST(colours_are_in_the_order_of_the_channels) {
  uint8_t pixel[2][3];
  for (size_t f = 0; f < 2; f++) {
    open_on(f == 0 ? PIXELS_RGB24 : PIXELS_BGR24, NULL, (const float[BOXES][ROW]){{10, 15, 40, 20, 1, 1}});
    memcpy(pixel[f], (const uint8_t *)fixture.output + 3 * (15 * WIDTH + 30), 3);
    fixture_close(&fixture);
  }
  ck_assert_uint_eq(pixel[0][0], pixel[1][2]);
  ck_assert_uint_eq(pixel[0][1], pixel[1][1]);
  ck_assert_uint_eq(pixel[0][2], pixel[1][0]);
  ck_assert_uint_gt(pixel[0][0], pixel[0][2]); /* orange */
}
END_TEST

START_TEST(draw_says_what_it_does_not_take) {
  const char *problem = fixture_problem(&draw_stage, format_tensor(ELEMENT_FLOAT32, (uint64_t[]){3, 6}, 2), NULL);
  ck_assert_str_eq(problem, "draw takes the result of detect, not float32[3,6]; put `detect` before it");
  struct frame_format boxes = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){3, 6}, 2);
  boxes.meaning = MEANING_BOXES;
  problem = fixture_problem(&draw_stage, boxes, NULL);
  ck_assert_ptr_nonnull(strstr(problem, "draw draws on gray, rgb24, bgr24, nv12 and yuv420p, but the source gives"));
}
END_TEST

Suite *draw_suite(void);

static bool read_labels(struct stage_plan *plan, const char *text, char problem[STAGE_TEXT]) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/framed-labels-%d", (int)getpid());
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
  *plan = (struct stage_plan){.stage = &draw_stage};
  bool good = labels_read(plan, &(struct stage_value){.given = true, .text = path}, problem);
  unlink(path);
  for (unsigned i = 0; i < STAGE_MAX_FILES; i++) {
    kept_close(&plan->files[i]); /* a chain does it for its plans */
  }
  return good;
}

START_TEST(a_labels_file_may_begin_with_a_byte_order_mark) {
  static const char *const texts[] = {"person\ncar\n", "\xEF\xBB\xBFperson\r\ncar\r\n", "\xEF\xBB\xBFperson\ncar"};
  char problem[STAGE_TEXT];
  struct stage_plan plan;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    ck_assert_msg(read_labels(&plan, texts[i], problem), "%s", problem);
    ck_assert_uint_eq(plan.label_count, 2);
    ck_assert_str_eq(plan.labels[0], "person");
    ck_assert_str_eq(plan.labels[1], "car");
    labels_release(&plan);
  }
  ck_assert(!read_labels(&plan, "\xEF\xBB\xBF", problem));
  ck_assert_ptr_nonnull(strstr(problem, "1 to 65536 lines"));
}
END_TEST

Suite *draw_suite(void) {
  Suite *suite = suite_create("draw");
  TCase *tcase = tcase_create("draw");
  tcase_add_test(tcase, an_outline_and_its_label_are_all_that_changes);
  tcase_add_test(tcase, labels_are_written_in_five_by_seven_pixels);
  tcase_add_test(tcase, better_boxes_hide_worse_ones);
  tcase_add_test(tcase, poor_and_unused_rows_are_not_drawn);
  tcase_add_test(tcase, boxes_may_lie_anywhere);
  tcase_add_test(tcase, chroma_is_that_of_the_outline);
  tcase_add_test(tcase, colours_are_in_the_order_of_the_channels);
  tcase_add_test(tcase, draw_says_what_it_does_not_take);
  tcase_add_test(tcase, a_labels_file_may_begin_with_a_byte_order_mark);
  suite_add_tcase(suite, tcase);
  return suite;
}
