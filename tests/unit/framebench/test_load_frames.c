/* Frames as bytes: what the generator sends, and what it makes of results in pieces of any size. */
#include "tools/framebench/load/frames.h"

#include <string.h>

#include "tests/unit/runner.h"

static uint64_t numbers[64];
static unsigned frames, unstamped;

static void on_frame(void *context, const unsigned char head[LOAD_STAMP]) {
  (void)context;
  ck_assert_uint_lt(frames, 64);
  unstamped += !load_stamp_read(head, &numbers[frames]);
  frames++;
}

static void setup(void) {
  memset(numbers, 0, sizeof numbers);
  frames = unstamped = 0;
}

static void feed(struct load_parser *parser, const unsigned char *bytes, size_t count, size_t piece) {
  for (size_t at = 0; at < count; at += piece) {
    load_parser_feed(parser, bytes + at, piece < count - at ? piece : count - at, on_frame, NULL);
  }
}

START_TEST(a_batch_holds_many_small_frames_and_one_large_one) {
  struct load_batch batch;
  const struct load_form small = {.frame_bytes = 4096}, large = {.frame_bytes = 4 << 20};
  ck_assert(load_batch_init(&batch, &small));
  ck_assert_uint_eq(batch.frames, LOAD_BATCH_BYTES / 4096);
  ck_assert_uint_eq(batch.stride, 4096);
  load_batch_clear(&batch);
  ck_assert(load_batch_init(&batch, &large));
  ck_assert_uint_eq(batch.frames, 1);
  load_batch_clear(&batch);
}
END_TEST

START_TEST(numbers_come_back_from_raw_frames_in_any_pieces) {
  static const size_t pieces[] = {1, 3, 16, 17, 100, 4096};
  const struct load_form form = {.frame_bytes = 100};
  struct load_batch batch;
  ck_assert(load_batch_init(&batch, &form));
  load_batch_stamp(&batch, 1000, 5);
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
    struct load_parser parser = {.form = form};
    setup();
    feed(&parser, batch.memory, 5 * batch.stride, pieces[i]);
    ck_assert_uint_eq(frames, 5);
    ck_assert_uint_eq(unstamped, 0);
    for (unsigned n = 0; n < 5; n++) {
      ck_assert_uint_eq(numbers[n], 1000 + n);
    }
  }
  load_batch_clear(&batch);
}
END_TEST

START_TEST(a_frame_counts_once_its_last_byte_has_come) {
  const struct load_form form = {.frame_bytes = 100};
  struct load_parser parser = {.form = form};
  unsigned char bytes[100] = {0};
  feed(&parser, bytes, 99, 99);
  ck_assert_uint_eq(frames, 0);
  feed(&parser, bytes, 1, 1);
  ck_assert_uint_eq(frames, 1);
  ck_assert_uint_eq(unstamped, 1);
}
END_TEST

START_TEST(frames_too_small_for_a_stamp_are_counted) {
  const struct load_form form = {.frame_bytes = 8};
  struct load_parser parser = {.form = form};
  struct load_batch batch;
  ck_assert(load_batch_init(&batch, &form));
  load_batch_stamp(&batch, 7, 4);
  feed(&parser, batch.memory, 4 * batch.stride, 5);
  ck_assert_uint_eq(frames, 4);
  ck_assert_uint_eq(unstamped, 4);
  load_batch_clear(&batch);
}
END_TEST

START_TEST(a_number_that_a_stage_has_changed_is_none) {
  const struct load_form form = {.frame_bytes = 64};
  struct load_batch batch;
  unsigned char frame[64];
  float words[16];
  uint64_t number;
  ck_assert(load_batch_init(&batch, &form));
  load_batch_stamp(&batch, 1000, 1);
  ck_assert(load_stamp_read(batch.memory, &number));
  memcpy(words, batch.memory, sizeof words);
  for (unsigned i = 0; i < 16; i++) {
    words[i] += 1; /* as affine does it, which leaves the large words of the mark */
  }
  ck_assert_int_eq(memcmp(words, batch.memory, 8), 0);
  memcpy(frame, words, sizeof frame);
  ck_assert(!load_stamp_read(frame, &number));
  for (unsigned i = 0; i < 64; i++) { /* the same of pixels */
    unsigned scaled = (unsigned)(batch.memory[i] * 1.008F);
    frame[i] = (unsigned char)(scaled < 255 ? scaled : 255);
  }
  ck_assert_int_eq(memcmp(frame, batch.memory, 8), 0);
  ck_assert(!load_stamp_read(frame, &number));
  load_batch_clear(&batch);
}
END_TEST

START_TEST(y4m_has_a_header_and_a_line_before_each_frame) {
  const struct load_form form = {.y4m = true, .frame_bytes = 24};
  static const unsigned char header[] = "YUV4MPEG2 W4 H4 F25:1 C420jpeg\n";
  struct load_batch batch;
  ck_assert(load_batch_init(&batch, &form));
  ck_assert_int_eq(memcmp(batch.memory, "FRAME\n", 6), 0);
  load_batch_stamp(&batch, 40, 3);
  for (size_t piece = 1; piece < 40; piece++) {
    struct load_parser parser = {.form = form};
    setup();
    feed(&parser, header, sizeof header - 1, piece);
    feed(&parser, batch.memory, 3 * batch.stride, piece);
    ck_assert_uint_eq(frames, 3);
    ck_assert_uint_eq(numbers[2], 42);
    ck_assert(!parser.broken);
  }
  load_batch_clear(&batch);
}
END_TEST

START_TEST(the_line_before_a_frame_may_carry_more) {
  const struct load_form form = {.y4m = true, .frame_bytes = 2};
  static const unsigned char bytes[] = "YUV4MPEG2 W2 H1 Cmono\nFRAME Ip XYZ\nabFRAME\ncd";
  struct load_parser parser = {.form = form};
  feed(&parser, bytes, sizeof bytes - 1, 1);
  ck_assert_uint_eq(frames, 2);
  ck_assert(!parser.broken);
}
END_TEST

START_TEST(what_is_no_y4m_is_seen) {
  const struct load_form form = {.y4m = true, .frame_bytes = 2};
  static const unsigned char bytes[] = "YUV4MPEG2 W2 H1 Cmono\nFRAME\nabcFRAME\ncd";
  struct load_parser parser = {.form = form};
  feed(&parser, bytes, sizeof bytes - 1, 4);
  ck_assert_uint_eq(frames, 1);
  ck_assert(parser.broken);
}
END_TEST

Suite *load_frames_suite(void);
Suite *load_frames_suite(void) {
  Suite *suite = suite_create("load_frames");
  TCase *cases = tcase_create("load_frames");
  tcase_add_checked_fixture(cases, setup, NULL);
  tcase_add_test(cases, a_batch_holds_many_small_frames_and_one_large_one);
  tcase_add_test(cases, numbers_come_back_from_raw_frames_in_any_pieces);
  tcase_add_test(cases, a_frame_counts_once_its_last_byte_has_come);
  tcase_add_test(cases, frames_too_small_for_a_stamp_are_counted);
  tcase_add_test(cases, a_number_that_a_stage_has_changed_is_none);
  tcase_add_test(cases, y4m_has_a_header_and_a_line_before_each_frame);
  tcase_add_test(cases, the_line_before_a_frame_may_carry_more);
  tcase_add_test(cases, what_is_no_y4m_is_seen);
  suite_add_tcase(suite, cases);
  return suite;
}
