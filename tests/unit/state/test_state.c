/* A state in the image: whole it is what was written; damaged in any way it is none. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "daemon/state/image.h"
#include "daemon/state/state.h"

enum { DAMAGES = 10000, LENGTH = 5000, HEAD = 24 };

static uint64_t number; /* of a generator that gives the same numbers at every run */

static unsigned draw(unsigned below) {
  number = number * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(number >> 33) % below;
}

static void *write_state(void) {
  unsigned char bytes[LENGTH];
  for (unsigned i = 0; i < LENGTH; i++) {
    bytes[i] = (unsigned char)draw(256);
  }
  const struct iovec parts[] = {{.iov_base = bytes, .iov_len = 7}, {.iov_base = bytes + 7, .iov_len = LENGTH - 7}};
  void *state = state_write(parts, 2, false);
  ck_assert_ptr_nonnull(state);
  return state;
}

static bool is_read(const void *state) {
  struct failure failure = {.text = ""};
  bool whole = state_receive(state, false, &failure);
  ck_assert_msg(whole || failure.text[0], "there is no sentence");
  ck_assert(whole == (state_left()->bytes != NULL));
  return whole;
}

static void look(void) { ck_assert(image_look_into(dup(image_fd()))); }

START_TEST(what_is_written_is_read) {
  struct failure failure;
  static char said[] = "what there is", other[] = "what is there";
  const struct iovec parts[] = {{.iov_base = said, .iov_len = 5}, {.iov_base = said + 5, .iov_len = sizeof said - 5}};
  void *state = state_write(parts, 2, true);
  look();
  ck_assert(state_receive(state, true, &failure));
  const struct left *left = state_left();
  ck_assert(left->live && left->by_manager && left->length == sizeof said);
  ck_assert_str_eq(left->bytes, said);
  ck_assert(image_left_set(left->bytes, other, sizeof other));
  ck_assert_str_eq(left->bytes, other);
  image_free(state);
  ck_assert(!is_read(state));
  image_look_away();
  ck_assert(!image_left_set(said, other, sizeof other));
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
}
END_TEST

/* One to eight bytes become others. */
static void change_bytes(unsigned char *bytes) {
  unsigned count = 1 + draw(8);
  for (unsigned i = 0; i < count; i++) {
    bytes[draw(HEAD + LENGTH)] ^= (unsigned char)(i == 0 ? 1U << draw(8) : draw(256));
  }
}

START_TEST(damaged_in_any_way_it_is_none) {
  static unsigned char bytes[HEAD + LENGTH];
  number = 1;
  void *state = write_state();
  look();
  memcpy(bytes, state, sizeof bytes);
  for (unsigned i = 0; i < DAMAGES; i++) {
    change_bytes(state);
    ck_assert(!is_read(state) || memcmp(bytes, state, sizeof bytes) == 0); /* two changes may cancel each other out */
    memcpy(state, bytes, sizeof bytes);
    ck_assert(i % 100 != 0 || is_read(state));
  }
  image_free(state);
  image_look_away();
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
  tcase_set_timeout(all, 120);
  tcase_add_test(all, what_is_written_is_read);
  tcase_add_test(all, what_makes_no_sense_of_a_history_or_a_trouble_is_not_taken);
  tcase_add_test(all, damaged_in_any_way_it_is_none);
  tcase_add_test(all, the_version_is_the_same_at_every_question);
  suite_add_tcase(suite, all);
  return suite;
}
