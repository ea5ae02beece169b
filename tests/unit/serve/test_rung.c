/* How a line's thread looks after frames that the lane gives to a kernel that stays, with a device that the test is. */
#include <string.h>
#include <sys/eventfd.h>

#include "gpu/serve/private.h"
#include "tests/unit/runner.h"

enum { BIT = 65, SHORT_NAP_US = 20, NAP_US = 250 };

static struct line line;
static struct served served;
static struct line_page line_page;
static struct bell_page bell;
static struct program_page page;
static struct mailbox_words words;
static enum gpu_progress progress;
static unsigned looks;

enum gpu_progress gpu_attend(struct gpu_program *program, struct gpu_error *error) {
  (void)program, (void)error;
  looks++;
  return progress;
}

_Noreturn void serve_end(const struct gpu_error *error) {
  (void)error;
  _exit(3);
}

static void set_up(void) {
  line = (struct line){.page = &line_page,
                       .bell = &bell,
                       .eventfd = eventfd(0, EFD_NONBLOCK),
                       .rung = 1,
                       .most = BIT + 1,
                       .programs[BIT] = &served};
  memset(&served, 0, sizeof served);
  served.line = &line;
  served.bit = BIT;
  served.page = &page;
  served.mailbox = &words;
  served.is_rung = true;
  looks = 0;
}

static void tear_down(void) { close(line.eventfd); }

/* As if the lane had called. */
static int64_t look(void) {
  served.due = 0;
  return rung_attend(&line);
}

static bool was_woken(void) {
  uint64_t count;
  return read(line.eventfd, &count, sizeof count) == sizeof count;
}

static bool was_told(void) { return atomic_exchange(&bell.bits[BIT / 64], 0) == UINT64_C(1) << BIT % 64; }

START_TEST(naps_are_short_while_frames_come) {
  progress = GPU_DONE;
  ck_assert_int_eq(look(), INT64_MAX);
  progress = GPU_PENDING;
  ck_assert_int_le(look(), NAP_US * 1000);
  ck_assert_uint_eq(looks, 2);
  served.due = INT64_MAX; /* it is not time to look */
  (void)rung_attend(&line);
  ck_assert_uint_eq(looks, 2);
  progress = GPU_DONE;
  ck_assert_int_le(look(), NAP_US * 1000);
  served.active -= 1000000000;
  ck_assert_int_eq(look(), INT64_MAX);
}
END_TEST

/* The lane sleeps, or not yet; the frame's number is at the end of the numbers, or not. */
START_TEST(a_lane_is_woken_when_its_frame_is_done) {
  const uint32_t number = _i & 1 ? UINT32_MAX : 7;
  progress = GPU_PENDING;
  atomic_store(&bell.sleeping, (uint32_t)_i >> 1);
  atomic_store(&words.answers[3].word, number - 1);
  atomic_store(&page.awaited, (uint64_t)number << 32 | 3);
  ck_assert_int_le(look(), SHORT_NAP_US * 1000);
  ck_assert(!was_told() && !was_woken());
  atomic_store(&words.answers[3].word, number + 1); /* the lane saw it, and gave the slot the next one */
  ck_assert_int_gt(look(), SHORT_NAP_US * 1000);
  ck_assert(was_told());
  ck_assert_int_eq(was_woken(), _i >> 1);
  (void)look();
  ck_assert(!was_told() && !was_woken());
}
END_TEST

START_TEST(a_broken_device_ends_the_worker) {
  progress = GPU_DEAD;
  (void)look();
}
END_TEST

Suite *rung_suite(void);
Suite *rung_suite(void) {
  Suite *suite = suite_create("rung");
  TCase *group = tcase_create("line");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_add_test(group, naps_are_short_while_frames_come);
  tcase_add_loop_test(group, a_lane_is_woken_when_its_frame_is_done, 0, 4);
  tcase_add_exit_test(group, a_broken_device_ends_the_worker, 3);
  suite_add_tcase(suite, group);
  return suite;
}
