/* The lane's side of frames for a kernel that stays, on pages and words that the test holds in place of worker and kernel. */
#include <string.h>

#include "daemon/device/private.h"
#include "tests/unit/runner.h"

enum { BIT = 70 };

static struct device device, other;
static struct device_program program;
static struct program_page pages[2];
static struct line_page lines[2];
static struct mailbox_words words[2];
static struct gpu_error problem;

/* A program of five slots; those with odd numbers are on the other device, where there are two. */
static void make(unsigned parts) {
  memset(&device, 0, sizeof device);
  memset(&other, 0, sizeof other);
  memset(&program, 0, sizeof program);
  memset(pages, 0, sizeof pages);
  memset(lines, 0, sizeof lines);
  memset(words, 0, sizeof words);
  program.bit = BIT;
  program.count = 5;
  program.part_count = parts;
  for (unsigned i = 0; i < parts; i++) {
    program.parts[i] = (struct device_part){.program = &program,
                                            .device = i == 0 ? &device : &other,
                                            .page = &pages[i],
                                            .line = &lines[i],
                                            .mailbox = &words[i],
                                            .is_rung = true};
    words[i].launched.word = 1; /* the kernel is there */
    for (unsigned slot = 0; slot < GPU_MAX_SLOTS; slot++) {
      words[i].doorbells[slot].word = words[i].answers[slot].word = 1; /* a warm-up was through it */
    }
  }
}

static bool submit(unsigned slot, bool notify) {
  const struct gpu_frame frame = {.sequence = slot, .notify = notify};
  return device_submit(&program, slot, &frame, &problem);
}

static enum gpu_progress ask(unsigned slot) { return device_ask(&program, slot, &problem); }

/* Whether the worker was called since this was asked last. */
static bool was_called(unsigned part) { return atomic_exchange(&lines[part].bits[BIT / 64], 0) == UINT64_C(1) << BIT % 64; }

static void answer(unsigned part, unsigned slot) { words[part].answers[slot].word = words[part].doorbells[slot].word; }

START_TEST(a_frame_goes_to_the_kernel_without_the_worker) {
  struct gpu_times times;
  make(1);
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned slot = 0; slot < 5; slot++) {
      ck_assert(submit(slot, false));
      ck_assert_uint_eq(words[0].doorbells[slot].word, round + 2);
      ck_assert_int_eq(ask(slot), GPU_PENDING);
    }
    for (unsigned slot = 0; slot < 5; slot++) {
      answer(0, slot);
      pages[0].results[slot].outcome = round % 2 ? PROGRAM_REFUSED : PROGRAM_LATE; /* of a frame that went another way */
      pages[0].results[slot].has_times = true;
      ck_assert_int_eq(ask(slot), GPU_DONE);
      ck_assert(!device_late(&program, slot) && !device_refusal(&program, slot) && !device_times(&program, slot, &times));
    }
  }
  ck_assert(!was_called(0));
  ck_assert_uint_eq(pages[0].tail, 0);
}
END_TEST

START_TEST(the_worker_is_called_where_the_kernel_has_left) {
  make(1);
  ck_assert(submit(0, false));
  words[0].left.word = 1;
  for (unsigned i = 0; i < 200 && !was_called(0); i++) {
    ck_assert_uint_lt(i, 100);
    ck_assert_int_eq(ask(0), GPU_PENDING);
  }
  ck_assert(submit(1, false));
  ck_assert(was_called(0));
}
END_TEST

START_TEST(a_lane_that_sleeps_says_for_which_frame) {
  make(1);
  ck_assert(submit(3, false));
  ck_assert(!device_await(&program, 3));
  ck_assert(was_called(0));
  ck_assert_uint_eq(pages[0].awaited, UINT64_C(2) << 32 | 3);
  answer(0, 3);
  ck_assert(device_await(&program, 3));
  ck_assert(submit(2, true)); /* of which the worker tells */
  was_called(0);
  ck_assert(!device_await(&program, 2));
  ck_assert(!was_called(0));
}
END_TEST

START_TEST(other_frames_go_to_the_worker) {
  make(1);
  ck_assert(submit(0, true));
  ck_assert(was_called(0));
  ck_assert_uint_eq(pages[0].tail, 1);
  ck_assert_uint_eq(words[0].doorbells[0].word, 1);
  ck_assert_int_eq(ask(0), GPU_PENDING);
  pages[0].results[0].word = pages[0].ring[0].ticket;
  ck_assert_int_eq(ask(0), GPU_DONE);
  program.parts[0].is_rung = false; /* as where the stage `fault` is in the chain */
  ck_assert(submit(0, false));
  ck_assert_uint_eq(pages[0].tail, 2);
  ck_assert_int_eq(ask(0), GPU_PENDING);
}
END_TEST

START_TEST(slots_are_dealt_over_devices) {
  make(2);
  for (unsigned slot = 0; slot < 5; slot++) {
    ck_assert(submit(slot, false));
    ck_assert_uint_eq(words[slot % 2].doorbells[slot / 2].word, 2);
    answer(slot % 2, slot / 2);
    ck_assert_int_eq(ask(slot), GPU_DONE);
  }
}
END_TEST

/* A frame of a worker that was replaced is never done, whatever stands in the words of the new one. */
START_TEST(a_frame_of_a_lost_worker_is_not_done) {
  make(2);
  ck_assert(submit(0, false) && submit(1, false));
  program.parts[0].rung = 0; /* as part_make() does */
  answer(0, 0);
  answer(1, 0);
  ck_assert_int_eq(ask(0), GPU_PENDING);
  ck_assert(!device_await(&program, 0));
  ck_assert_int_eq(ask(1), GPU_DONE);
}
END_TEST

Suite *frames_suite(void);
Suite *frames_suite(void) {
  Suite *suite = suite_create("frames");
  TCase *group = tcase_create("rung");
  tcase_add_test(group, a_frame_goes_to_the_kernel_without_the_worker);
  tcase_add_test(group, the_worker_is_called_where_the_kernel_has_left);
  tcase_add_test(group, a_lane_that_sleeps_says_for_which_frame);
  tcase_add_test(group, other_frames_go_to_the_worker);
  tcase_add_test(group, slots_are_dealt_over_devices);
  tcase_add_test(group, a_frame_of_a_lost_worker_is_not_done);
  suite_add_tcase(suite, group);
  return suite;
}
