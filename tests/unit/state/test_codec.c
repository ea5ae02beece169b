/* Tapes: what is put is what is taken, and what is not there breaks them. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/state/codec.h"
#include "daemon/state/fd_table.h"

static struct codec codec;

/* What was written is read from now on. */
static void rewind_tape(void) {
  unsigned char *bytes = malloc(codec.length + 1);
  size_t length = codec.length;
  memcpy(bytes, codec.bytes, length);
  codec_clear(&codec);
  codec_load(&codec, bytes, length);
}

static void pass_all(uint64_t *number, unsigned *choice, char **text, char **no_text) {
  CODEC_PASS(&codec, *number);
  codec_pass_below(&codec, choice, 5);
  codec_pass_text(&codec, text);
  codec_pass_text(&codec, no_text);
}

START_TEST(what_is_put_is_taken) {
  uint64_t number = UINT64_C(0x1234567890abcdef);
  unsigned choice = 4;
  char *text = strdup("some text"), *no_text = NULL, *put = text;
  codec_begin(&codec);
  pass_all(&number, &choice, &text, &no_text);
  ck_assert(!codec.broken);
  rewind_tape();
  number = choice = 0;
  pass_all(&number, &choice, &text, &no_text);
  ck_assert(!codec.broken);
  ck_assert_uint_eq(codec.at, codec.length);
  ck_assert(number == UINT64_C(0x1234567890abcdef) && choice == 4);
  ck_assert_str_eq(text, "some text");
  ck_assert_ptr_null(no_text);
  free(text);
  free(put);
  codec_clear(&codec);
}
END_TEST

START_TEST(more_than_there_is_breaks_it) {
  uint32_t small = 7;
  uint64_t large = 1;
  codec_begin(&codec);
  CODEC_PASS(&codec, small);
  rewind_tape();
  CODEC_PASS(&codec, large);
  ck_assert(codec.broken && large == 0);
  CODEC_PASS(&codec, small);
  ck_assert_uint_eq(small, 0);
  codec_clear(&codec);
}
END_TEST

START_TEST(a_number_out_of_range_breaks_it) {
  unsigned number = 5;
  codec_begin(&codec);
  CODEC_PASS(&codec, number);
  rewind_tape();
  codec_pass_below(&codec, &number, 5);
  ck_assert(codec.broken && number == 0);
  codec_clear(&codec);
}
END_TEST

START_TEST(a_text_without_an_end_breaks_it) {
  uint64_t length = 4;
  char *text = NULL;
  codec_begin(&codec);
  CODEC_PASS(&codec, length);
  codec_pass(&codec, "four", 4);
  rewind_tape();
  codec_pass_text(&codec, &text);
  ck_assert(codec.broken);
  free(text);
  codec_clear(&codec);
}
END_TEST

START_TEST(it_grows_as_it_must) {
  enum { SIZE = 1000000 };
  unsigned char *bytes = calloc(1, SIZE), *taken = malloc(SIZE);
  bytes[SIZE - 1] = 1;
  codec_begin(&codec);
  codec_pass(&codec, bytes, SIZE);
  codec_pass(&codec, bytes, SIZE);
  rewind_tape();
  codec_pass(&codec, taken, SIZE);
  ck_assert_mem_eq(bytes, taken, SIZE);
  free(bytes);
  free(taken);
  codec_clear(&codec);
}
END_TEST

START_TEST(a_descriptor_is_taken_once_and_only_if_it_came) {
  int pipes[2], taken = -1, none = -1;
  ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
  codec_begin(&codec);
  codec_pass_descriptor(&codec, &pipes[0]);
  codec_pass_descriptor(&codec, &none);
  codec_pass_descriptor(&codec, &pipes[0]);
  codec_pass_descriptor(&codec, &pipes[1]);
  ck_assert(!codec.broken);
  fd_table_set_aside(pipes[0]); /* as if it had come from the process before */
  rewind_tape();
  codec_pass_descriptor(&codec, &taken);
  codec_pass_descriptor(&codec, &none);
  ck_assert(!codec.broken && taken == pipes[0] && none == -1);
  codec.live = true;
  codec_pass_descriptor(&codec, &taken);
  ck_assert(!codec.broken && taken == -1);
  codec.live = false;
  codec_pass_descriptor(&codec, &taken);
  ck_assert(codec.broken && taken == -1);
  codec_clear(&codec);
  close(pipes[0]);
  close(pipes[1]);
}
END_TEST

START_TEST(a_flag_that_is_none_breaks_it) {
  unsigned char bytes[] = {1, 0, 2};
  bool flag = false;
  codec_begin(&codec);
  codec_pass(&codec, bytes, sizeof bytes);
  rewind_tape();
  CODEC_PASS(&codec, flag);
  ck_assert(flag && !codec.broken);
  CODEC_PASS(&codec, flag);
  ck_assert(!flag && !codec.broken && !codec_is_at_end(&codec));
  CODEC_PASS(&codec, flag);
  ck_assert(!flag && codec.broken && !codec_is_at_end(&codec));
  codec_clear(&codec);
}
END_TEST

START_TEST(a_time_that_cannot_be_breaks_it) {
  static const int64_t times[] = {0, INT64_MAX / 2, -1, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    int64_t time = times[i];
    codec_begin(&codec);
    CODEC_PASS(&codec, time);
    rewind_tape();
    codec_pass_time(&codec, &time);
    ck_assert(i < 2 ? codec_is_at_end(&codec) && time == times[i] : codec.broken && time == 0);
    codec_clear(&codec);
  }
}
END_TEST

/* Who puts goes on with all of it where the tape has no room. */
START_TEST(a_broken_tape_takes_nothing_from_who_puts) {
  int pipes[2];
  ck_assert_int_eq(pipe(pipes), 0);
  int put = pipes[0];
  unsigned number = 7;
  codec_begin(&codec);
  codec_break(&codec);
  codec_pass_descriptor(&codec, &put);
  codec_pass_below(&codec, &number, 8);
  ck_assert_int_eq(put, pipes[0]);
  ck_assert_uint_eq(number, 7);
  close(pipes[0]);
  close(pipes[1]);
  codec_clear(&codec);
}
END_TEST

Suite *codec_suite(void);

Suite *codec_suite(void) {
  Suite *suite = suite_create("codec");
  TCase *all = tcase_create("all");
  tcase_add_test(all, what_is_put_is_taken);
  tcase_add_test(all, more_than_there_is_breaks_it);
  tcase_add_test(all, a_number_out_of_range_breaks_it);
  tcase_add_test(all, a_text_without_an_end_breaks_it);
  tcase_add_test(all, it_grows_as_it_must);
  tcase_add_test(all, a_descriptor_is_taken_once_and_only_if_it_came);
  tcase_add_test(all, a_flag_that_is_none_breaks_it);
  tcase_add_test(all, a_broken_tape_takes_nothing_from_who_puts);
  tcase_add_test(all, a_time_that_cannot_be_breaks_it);
  suite_add_tcase(suite, all);
  return suite;
}
