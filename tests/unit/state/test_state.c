/* A state in the image: what was written is found there, and one whose lengths make no sense is none. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "daemon/state/image.h"
#include "daemon/state/state.h"

static const char text[] = "7 /a/file\0key: value";

enum { PIPELINES = 2 };

/* A state with two pipelines, as the next process would find it. */
static struct state *write_state(enum image_use use) {
  struct state *state = image_new(IMAGE_STATE, sizeof *state + PIPELINES * sizeof *state->pipeline + sizeof text);
  ck_assert_ptr_nonnull(state);
  *state = (struct state){.server = text, .pipelines = PIPELINES, .files = 1};
  memcpy(state->pipeline + PIPELINES, text, sizeof text);
  image_front()->state = state;
  image_front()->use = (unsigned char)use;
  ck_assert(image_open_left(dup(image_fd())));
  return state;
}

static void forget(struct state *state) {
  image_free(state);
  image_close_left();
}

START_TEST(what_is_written_is_found) {
  struct state *state = write_state(IMAGE_IS_LIVE);
  const struct left *left = state_left();
  state_receive(true);
  ck_assert(left->live && left->by_manager && left->state->server == text && left->state->pipelines == PIPELINES);
  ck_assert(left->end - left->text == sizeof text && memcmp(left->text, text, sizeof text) == 0);
  state_receive(false); /* who executes another program has stopped first */
  ck_assert(!left->live && !left->by_manager && left->state);
  image_front()->use = IMAGE_IS_LEFT;
  state_receive(true);
  ck_assert(!left->live && left->by_manager && left->state);
  forget(state);
}
END_TEST

START_TEST(what_has_no_end_or_is_longer_than_its_record_is_none) {
  struct state *state = write_state(IMAGE_IS_LIVE);
  const unsigned numbers[] = {PIPELINES + 2, 1 << 16, UINT32_MAX / 2, UINT32_MAX};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    state->pipelines = numbers[i];
    state_receive(true);
    ck_assert(!state_left()->state && !state_left()->text);
  }
  state->pipelines = PIPELINES;
  ((char *)(state->pipeline + PIPELINES))[sizeof text - 1] = 'e';
  state_receive(true);
  ck_assert_ptr_null(state_left()->state);
  image_front()->state = text;
  state_receive(true);
  ck_assert_ptr_null(state_left()->state);
  forget(state);
}
END_TEST

START_TEST(what_makes_no_sense_of_a_history_or_a_trouble_is_not_taken) {
  struct history history = {.cause = HISTORY_CRASH, .faults = {7}}, taken;
  struct trouble trouble = {.count = 1, .since = 5, .last = 6}, other;
  memset(history.text, 'x', sizeof history.text);
  memset(trouble.text, 'x', sizeof trouble.text);
  ck_assert(history_adopt(&taken, &history) && taken.faults[0] == 7 && strlen(taken.text) == HISTORY_TEXT - 1);
  ck_assert(trouble_adopt(&other, &trouble) && other.last == 6 && strlen(other.text) == TROUBLE_TEXT - 1);
  history.faults[HISTORY_FAULTS - 1] = -1;
  trouble.last = INT64_MAX;
  ck_assert(!history_adopt(&taken, &history) && !trouble_adopt(&other, &trouble));
  struct worker_history left = {.generation = 2, .replaced = 1, .since = 5, .stopped = 4, .gap = 1}, workers;
  memset(left.text, 'x', sizeof left.text);
  ck_assert(workers_adopt(&workers, &left) && workers.replaced == 1 && strlen(workers.text) == HISTORY_TEXT - 1);
  left.since = -1;
  ck_assert(!workers_adopt(&workers, &left));
}
END_TEST

START_TEST(the_version_is_the_same_at_every_question) {
  char one[STATE_VERSION_TEXT], other[STATE_VERSION_TEXT];
  ck_assert_str_eq(state_version(one), state_version(other));
  ck_assert_ptr_nonnull(strchr(one, '.'));
}
END_TEST

Suite *state_suite(void);

Suite *state_suite(void) {
  Suite *suite = suite_create("state");
  TCase *all = tcase_create("all");
  tcase_add_test(all, what_is_written_is_found);
  tcase_add_test(all, what_makes_no_sense_of_a_history_or_a_trouble_is_not_taken);
  tcase_add_test(all, what_has_no_end_or_is_longer_than_its_record_is_none);
  tcase_add_test(all, the_version_is_the_same_at_every_question);
  suite_add_tcase(suite, all);
  return suite;
}
