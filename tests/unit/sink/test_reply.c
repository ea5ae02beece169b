/* What the session of a `reply` sink hears of its client, also of one that cannot be attached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/sink/results.h"
#include "tests/unit/runner.h"

static uv_loop_t loop;
static struct mailbox control;
static struct lane *lane;
static struct sink *sink;
static uv_sem_t heard; /* each time the session is told something */
static unsigned told;
static struct {
  bool closed;
  char why[64];
} word[4];

static void on_gone(void *session, bool closed, const char *why) {
  (void)session;
  ck_assert_uint_lt(told, 4);
  word[told].closed = closed;
  snprintf(word[told].why, sizeof word[told].why, "%s", why);
  told++;
  uv_sem_post(&heard);
}

static void set_up(void) {
  struct failure failure;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(mailbox_open(&control, &loop), 0);
  ck_assert_int_eq(uv_sem_init(&heard, 0), 0);
  lane = lane_new(0, &failure);
  ck_assert_ptr_nonnull(lane);
  struct config_pipeline config = {.name = "cam0", .sink = {.endpoint = CONFIG_REPLY}};
  struct frame_format format = format_image(PIXELS_GRAY, 4, 4);
  const struct sink_setup setup = {.config = &config, .lane = lane, .control = &control, .output = &format};
  sink = sink_new_reply(&setup, on_gone, &loop, &failure);
  ck_assert_ptr_nonnull(sink);
  told = 0;
}

static void leave(struct message *message) {
  (void)message;
  lane_leave(&sink->runner);
  uv_sem_post(&heard);
}

static void tear_down(void) {
  struct message message = {.run = leave};
  lane_post(lane, &message);
  uv_sem_wait(&heard);
  lane = lane_free(lane);
  sink = sink_free(sink);
  mailbox_close(&control);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
  uv_sem_destroy(&heard);
}

static void attach(int fd) {
  struct failure failure;
  struct reader *reader = reader_new(sink, fd, &failure);
  ck_assert_ptr_nonnull(reader);
  sink_attach(sink, reader);
}

static void require_both_words(const char *why) {
  uv_sem_wait(&heard);
  uv_sem_wait(&heard);
  ck_assert(!word[0].closed);
  ck_assert_str_eq(word[0].why, why);
  ck_assert(word[1].closed);
}

START_TEST(a_client_leaves_and_then_its_handle_is_closed) {
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  attach(pair[0]);
  close(pair[1]);
  require_both_words("");
}
END_TEST

/* Else results that wait for it would wait for ever where its frames have ended already. */
START_TEST(a_client_that_cannot_be_polled_leaves_as_well) {
  FILE *file = tmpfile(); /* of a kind that nothing can poll */
  ck_assert_ptr_nonnull(file);
  attach(dup(fileno(file)));
  require_both_words(uv_strerror(UV_EPERM));
  fclose(file);
}
END_TEST

Suite *reply_suite(void);
Suite *reply_suite(void) {
  Suite *suite = suite_create("reply");
  TCase *tests = tcase_create("client");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, a_client_leaves_and_then_its_handle_is_closed);
  tcase_add_test(tests, a_client_that_cannot_be_polled_leaves_as_well);
  suite_add_tcase(suite, tests);
  return suite;
}
