/* What a process that was killed had noted: each file that it wrote is known with the size of its results, and no other one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/state.h"

#include "tests/unit/runner.h"

static const char named[] = "/run/framed/out", unsized[] = "/run/framed/out.raw";

static struct state *state_of(const char *one, const char *other) {
  struct state *state = image_new(IMAGE_STATE, sizeof *state + 2 * sizeof *state->pipeline + 1);
  ck_assert_ptr_nonnull(state);
  state->pipelines = 2;
  state->pipeline[0] = (struct state_pipeline){.path = state_checksum(one, strlen(one)), .result_bytes = 512};
  state->pipeline[1] = (struct state_pipeline){.path = state_checksum(other, strlen(other))};
  return state;
}

/* As the next process would find it. Nobody hears what the manager is told. */
static enum receipt note(struct state *state, enum image_use use, bool by_manager) {
  struct failure failure;
  setenv("NOTIFY_SOCKET", "/nobody", 1);
  setenv("FDSTORE", "10", 1);
  fd_store_note(state, use);
  fd_store_beat(clock_now(), 3);
  return fd_store_open_image(dup(image_fd()), by_manager, &failure);
}

START_TEST(files_that_were_written_are_known) {
  static const struct {
    enum image_use use;
    enum receipt receipt;
  } cases[] = {{IMAGE_IS_REPORT, RECEIPT_NONE}, {IMAGE_IS_LIVE, RECEIPT_WHOLE}};
  uint64_t bytes = 9;
  ck_assert_int_eq(note(state_of(named, unsized), cases[_i].use, true), cases[_i].receipt);
  ck_assert(fd_store_was_killed() && fd_store_last_heartbeat().clients == 3);
  ck_assert(fd_store_was_writing(named, &bytes) && bytes == 512);
  ck_assert(fd_store_was_writing(unsized, &bytes) && bytes == 0);
  ck_assert(!fd_store_was_writing("/run/framed/ou", &bytes) && !fd_store_was_writing("", &bytes));
  fd_store_forget_last();
  ck_assert(!fd_store_was_writing(named, &bytes) && !fd_store_was_killed());
}
END_TEST

START_TEST(without_a_state_it_may_be_any_file) {
  uint64_t bytes = 9;
  ck_assert_int_eq(note(NULL, IMAGE_IS_REPORT, true), RECEIPT_NONE);
  ck_assert(fd_store_was_writing(named, &bytes) && bytes == 0);
  fd_store_forget_last();
}
END_TEST

START_TEST(who_ended_by_itself_was_not_killed) {
  struct failure failure;
  uint64_t bytes;
  note(state_of(named, unsized), IMAGE_IS_LIVE, true);
  fd_store_end();
  ck_assert_int_eq(fd_store_open_image(dup(image_fd()), true, &failure), RECEIPT_NONE);
  ck_assert(!fd_store_was_killed() && !fd_store_was_writing(named, &bytes) && bytes == 0);
  fd_store_forget_last();
}
END_TEST

START_TEST(nobody_was_killed_who_left_all_in_order) {
  uint64_t bytes;
  ck_assert_int_eq(note(state_of(named, unsized), IMAGE_IS_LEFT, true), RECEIPT_WHOLE);
  ck_assert(!fd_store_was_killed() && !fd_store_was_writing(named, &bytes));
  ck_assert_int_eq(note(state_of(named, unsized), IMAGE_IS_LIVE, false), RECEIPT_WHOLE); /* it executed this one */
  ck_assert(!fd_store_was_killed());
  fd_store_forget_last();
}
END_TEST

START_TEST(whose_process_failed_by_itself_tells_and_is_of_no_use) {
  struct failure failure = {.text = ""};
  uint64_t bytes;
  note(state_of(named, unsized), IMAGE_IS_LIVE, true);
  image_disown();
  ck_assert_int_eq(fd_store_open_image(dup(image_fd()), true, &failure), RECEIPT_UNUSABLE);
  ck_assert(failure.text[0] && fd_store_was_killed() && fd_store_was_writing(named, &bytes) && bytes == 512);
  fd_store_forget_last();
}
END_TEST

Suite *fd_store_suite(void);
Suite *fd_store_suite(void) {
  Suite *suite = suite_create("fd_store");
  TCase *test = tcase_create("all");
  tcase_add_loop_test(test, files_that_were_written_are_known, 0, 2);
  tcase_add_test(test, without_a_state_it_may_be_any_file);
  tcase_add_test(test, who_ended_by_itself_was_not_killed);
  tcase_add_test(test, nobody_was_killed_who_left_all_in_order);
  tcase_add_test(test, whose_process_failed_by_itself_tells_and_is_of_no_use);
  suite_add_tcase(suite, test);
  return suite;
}
