/* Which finished segments go, whatever the clock says and whoever else has files there. */
#include "daemon/sink/retention.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "daemon/wire/segment.h"
#include "tests/unit/runner.h"

enum { SEGMENT_BYTES = 1000, HOUR = 3600, MONTH = 30 * 24 * HOUR };

static char folder[64];
static char pattern[128];
static struct config_pipeline config;
static struct retention retention;
static char owner[] = "cam";

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/tmp/framed-unit-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(pattern, sizeof pattern, "%s/cam-%%H%%M.raw", folder);
  config = (struct config_pipeline){.name = owner, .sink = {.path = pattern, .rotate = {.size = 1}}};
  retention = (struct retention){0};
}

static void remove_folder(void) {
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const char *name, const char *suffix) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
  return path;
}

static void make_segment(const char *name, const char *of, int64_t age) {
  struct segment_head head = {
      .magic = SEGMENT_MAGIC, .version = SEGMENT_VERSION, .entry_bytes = sizeof(struct segment_entry), .payload = 1};
  const struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
  snprintf(head.owner, sizeof head.owner, "%s", of);
  int fd = open(path_of(name, ""), O_WRONLY | O_CREAT, 0600),
      index = open(path_of(name, SEGMENT_INDEX), O_WRONLY | O_CREAT, 0600);
  ck_assert_int_eq(ftruncate(fd, SEGMENT_BYTES), 0);
  ck_assert_int_eq(write(index, &head, sizeof head), sizeof head);
  ck_assert_int_eq(futimens(fd, times), 0);
  close(fd);
  close(index);
}

static bool is_there(const char *name) { return access(path_of(name, ""), F_OK) == 0; }

static unsigned apply(void) { return retention_apply(&config, &retention, false); }

/* There was a look at the clock, just now. */
static void look(void) {
  struct timespec boot;
  clock_gettime(CLOCK_BOOTTIME, &boot);
  retention.looked = boot.tv_sec * NS_PER_S + boot.tv_nsec;
  retention.shift = (int64_t)time(NULL) * NS_PER_S - retention.looked;
}

/* As if the clock had been set forward since the last look. */
static void step(int64_t seconds) { retention.shift -= seconds * NS_PER_S; }

START_TEST(the_oldest_go_when_there_are_too_many_and_nobody_elses) {
  make_segment("cam-0300.raw", "cam", 30);
  make_segment("cam-0301.raw", "cam", 20);
  make_segment("cam-0302.raw", "cam", 10);
  make_segment("cam-0259.raw", "another", 40);
  make_segment("cam-door-0258.raw", "cam", 50);
  mkfifo(path_of("cam-0257.raw.index", ""), 0600);
  close(open(path_of("cam-0257.raw", ""), O_CREAT | O_WRONLY, 0600));
  config.sink.rotate.most = 2 * (SEGMENT_BYTES + (int64_t)sizeof(struct segment_head)) + 1;
  ck_assert_uint_eq(apply(), 1);
  ck_assert(!is_there("cam-0300.raw") && !is_there("cam-0300.raw.index") && is_there("cam-0301.raw"));
  ck_assert(is_there("cam-0259.raw") && is_there("cam-door-0258.raw") && is_there("cam-0257.raw"));
}
END_TEST

START_TEST(what_is_too_old_goes) {
  make_segment("cam-0300.raw", "cam", 3 * HOUR);
  make_segment("cam-0301.raw", "cam", HOUR / 2);
  config.sink.rotate.keep_ns = HOUR * NS_PER_S;
  ck_assert_uint_eq(apply(), 1);
  ck_assert(!is_there("cam-0300.raw") && is_there("cam-0301.raw"));
}
END_TEST

START_TEST(a_step_of_the_clock_makes_nothing_older) {
  config.sink.rotate.keep_ns = 7 * 24 * HOUR * NS_PER_S;
  make_segment("cam-0300.raw", "cam", MONTH + 100); /* by the clock, after the step */
  make_segment("cam-0301.raw", "cam", MONTH + 10);
  look();
  step(MONTH);
  for (int i = 0; i < 3; i++) {
    make_segment("cam-0302.raw", "cam", 0);
    ck_assert_uint_eq(apply(), 0);
  }
  make_segment("cam-0300.raw", "cam", MONTH + 8 * 24 * HOUR); /* it becomes too old as time goes on */
  ck_assert_uint_eq(apply(), 1);
  step(-MONTH); /* and back again, to the times of these */
  make_segment("cam-0301.raw", "cam", 10);
  make_segment("cam-0302.raw", "cam", -MONTH);
  ck_assert_uint_eq(apply(), 0);
}
END_TEST

START_TEST(after_a_step_the_new_ones_have_their_own_age) {
  config.sink.rotate.keep_ns = HOUR * NS_PER_S;
  look();
  step(MONTH); /* it was in the past until now */
  make_segment("cam-0300.raw", "cam", 0);
  ck_assert_uint_eq(apply(), 0);
  make_segment("cam-0300.raw", "cam", 2 * HOUR);
  retention.stepped -= 3 * HOUR * NS_PER_S;
  ck_assert_uint_eq(apply(), 1);
}
END_TEST

START_TEST(a_process_that_begins_counts_from_the_newest) {
  config.sink.rotate.keep_ns = 7 * 24 * HOUR * NS_PER_S;
  make_segment("cam-0300.raw", "cam", MONTH + 8 * 24 * HOUR);
  make_segment("cam-0301.raw", "cam", MONTH + 6 * 24 * HOUR);
  make_segment("cam-0302.raw", "cam", MONTH);
  ck_assert_uint_eq(apply(), 1);
  make_segment("cam-0303.raw", "cam", 0);
  ck_assert_uint_eq(apply(), 0);
  ck_assert(!is_there("cam-0300.raw") && is_there("cam-0301.raw"));
}
END_TEST

START_TEST(folders_that_a_name_made_go_when_they_are_empty) {
  snprintf(pattern, sizeof pattern, "%s/cam/%%D/%%H.raw", folder);
  ck_assert_int_eq(mkdir(path_of("cam", ""), 0700) + mkdir(path_of("cam/11", ""), 0700) +
                       mkdir(path_of("cam/11/27", ""), 0700) + mkdir(path_of("cam/11/28", ""), 0700) +
                       mkdir(path_of("cam/11/27/26", ""), 0700) + mkdir(path_of("cam/11/28/26", ""), 0700),
                   0);
  make_segment("cam/11/27/26/03.raw", "cam", 2 * HOUR);
  make_segment("cam/11/28/26/03.raw", "cam", 0);
  config.sink.rotate.keep_ns = HOUR * NS_PER_S;
  ck_assert_uint_eq(apply(), 1);
  ck_assert(!is_there("cam/11/27") && is_there("cam/11/28/26/03.raw"));
  config.sink.rotate = (struct config_rotate){.size = 1, .full = CONFIG_FULL_REMOVE_OLDEST};
  ck_assert_uint_eq(retention_apply(&config, &retention, true), 1);
  ck_assert(!is_there("cam/11") && is_there("cam"));
}
END_TEST

START_TEST(a_full_disk_takes_the_oldest_where_it_may) {
  make_segment("cam-0300.raw", "cam", 30);
  make_segment("cam-0301.raw", "cam", 20);
  config.sink.rotate = (struct config_rotate){.size = 500, .full = _i == 0 ? CONFIG_FULL_STOP : CONFIG_FULL_AUTO};
  ck_assert_uint_eq(retention_apply(&config, &retention, true), 0);
  config.sink.rotate.most = INT64_C(1) << 40;
  ck_assert_uint_eq(retention_apply(&config, &retention, true), (unsigned)_i);
  ck_assert(is_there("cam-0300.raw") == (_i == 0) && is_there("cam-0301.raw"));
}
END_TEST

Suite *retention_suite(void);
Suite *retention_suite(void) {
  Suite *suite = suite_create("retention");
  TCase *all = tcase_create("segments");
  tcase_add_checked_fixture(all, make_folder, remove_folder);
  tcase_add_test(all, the_oldest_go_when_there_are_too_many_and_nobody_elses);
  tcase_add_test(all, what_is_too_old_goes);
  tcase_add_test(all, a_step_of_the_clock_makes_nothing_older);
  tcase_add_test(all, after_a_step_the_new_ones_have_their_own_age);
  tcase_add_test(all, a_process_that_begins_counts_from_the_newest);
  tcase_add_test(all, folders_that_a_name_made_go_when_they_are_empty);
  tcase_add_loop_test(all, a_full_disk_takes_the_oldest_where_it_may, 0, 2);
  suite_add_tcase(suite, all);
  return suite;
}
