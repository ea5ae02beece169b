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
  struct codec codec;
  struct failure failure;
  unsigned char bytes[LENGTH];
  for (unsigned i = 0; i < LENGTH; i++) {
    bytes[i] = (unsigned char)draw(256);
  }
  codec_begin(&codec);
  codec_pass(&codec, bytes, sizeof bytes);
  void *state = state_write(&codec, &failure);
  ck_assert_msg(state, "%s", failure.text);
  codec_clear(&codec);
  return state;
}

static bool is_read(const void *state) {
  struct codec codec;
  struct failure failure = {.text = ""};
  bool whole = state_read(image_name(state), &codec, &failure);
  ck_assert_msg(whole || failure.text[0], "there is no sentence");
  if (whole) {
    codec_clear(&codec);
  }
  return whole;
}

static void look(void) { ck_assert(image_look_into(dup(image_fd()))); }

START_TEST(what_is_written_is_read) {
  struct codec codec;
  struct failure failure;
  uint64_t value = 42;
  codec_begin(&codec);
  codec.live = true;
  CODEC_PASS(&codec, value);
  void *state = state_write(&codec, &failure);
  codec_clear(&codec);
  look();
  ck_assert(state_read(image_name(state), &codec, &failure));
  value = 0;
  CODEC_PASS(&codec, value);
  ck_assert(!codec.broken && value == 42 && codec.live);
  codec.bytes[0] = 43;
  ck_assert(state_write_again(&codec));
  codec_clear(&codec);
  ck_assert(state_read(image_name(state), &codec, &failure));
  CODEC_PASS(&codec, value);
  ck_assert(value == 43);
  codec.length--;
  ck_assert(!state_write_again(&codec));
  codec_clear(&codec);
  image_free(state);
  ck_assert(!is_read(state));
  image_look_away();
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
  tcase_add_test(all, damaged_in_any_way_it_is_none);
  tcase_add_test(all, the_version_is_the_same_at_every_question);
  suite_add_tcase(suite, all);
  return suite;
}
