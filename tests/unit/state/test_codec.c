/* Tapes: what is put is what is taken, and what is not there breaks them. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/state/codec.h"

static struct tape tape;

/* What was written is read from now on. */
static void rewind_tape(void) {
  unsigned char *bytes = malloc(tape.length + 1);
  size_t length = tape.length;
  memcpy(bytes, tape.bytes, length);
  tape_clear(&tape);
  tape_load(&tape, bytes, length);
  tape.same_descriptors = true;
}

static void pass_all(uint64_t *number, unsigned *choice, char **text, char **no_text) {
  TAPE_PASS(&tape, *number);
  tape_pass_below(&tape, choice, 5);
  tape_pass_text(&tape, text);
  tape_pass_text(&tape, no_text);
}

START_TEST(what_is_put_is_taken) {
  uint64_t number = UINT64_C(0x1234567890abcdef);
  unsigned choice = 4;
  char *text = strdup("some text"), *no_text = NULL, *put = text;
  tape_begin(&tape);
  pass_all(&number, &choice, &text, &no_text);
  ck_assert(!tape.broken);
  rewind_tape();
  number = choice = 0;
  pass_all(&number, &choice, &text, &no_text);
  ck_assert(!tape.broken);
  ck_assert_uint_eq(tape.at, tape.length);
  ck_assert(number == UINT64_C(0x1234567890abcdef) && choice == 4);
  ck_assert_str_eq(text, "some text");
  ck_assert_ptr_null(no_text);
  free(text);
  free(put);
  tape_clear(&tape);
}
END_TEST

START_TEST(more_than_there_is_breaks_it) {
  uint32_t small = 7;
  uint64_t large = 1;
  tape_begin(&tape);
  TAPE_PASS(&tape, small);
  rewind_tape();
  TAPE_PASS(&tape, large);
  ck_assert(tape.broken && large == 0);
  TAPE_PASS(&tape, small);
  ck_assert_uint_eq(small, 0);
  tape_clear(&tape);
}
END_TEST

START_TEST(a_number_out_of_range_breaks_it) {
  unsigned number = 5;
  tape_begin(&tape);
  TAPE_PASS(&tape, number);
  rewind_tape();
  tape_pass_below(&tape, &number, 5);
  ck_assert(tape.broken && number == 0);
  tape_clear(&tape);
}
END_TEST

START_TEST(a_text_without_an_end_breaks_it) {
  uint64_t length = 4;
  char *text = NULL;
  tape_begin(&tape);
  TAPE_PASS(&tape, length);
  tape_pass(&tape, "four", 4);
  rewind_tape();
  tape_pass_text(&tape, &text);
  ck_assert(tape.broken);
  free(text);
  tape_clear(&tape);
}
END_TEST

START_TEST(it_grows_as_it_must) {
  enum { SIZE = 1000000 };
  unsigned char *bytes = calloc(1, SIZE), *taken = malloc(SIZE);
  bytes[SIZE - 1] = 1;
  tape_begin(&tape);
  tape_pass(&tape, bytes, SIZE);
  tape_pass(&tape, bytes, SIZE);
  rewind_tape();
  tape_pass(&tape, taken, SIZE);
  ck_assert_mem_eq(bytes, taken, SIZE);
  free(bytes);
  free(taken);
  tape_clear(&tape);
}
END_TEST

/* Under systemd descriptors get other numbers. */
START_TEST(descriptors_are_found_by_the_number_that_they_had) {
  int pipes[2], first = 100, none = -1, unknown = 101;
  ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
  tape_begin(&tape);
  tape_pass_descriptor(&tape, &first);
  tape_pass_descriptor(&tape, &none);
  tape_pass_descriptor(&tape, &unknown);
  ck_assert_uint_eq(tape.descriptor_count, 2);
  rewind_tape();
  struct tape_descriptor *now = malloc(2 * sizeof *now);
  now[0] = (struct tape_descriptor){.before = 100, .now = pipes[0]};
  now[1] = (struct tape_descriptor){.before = 7, .now = pipes[1]};
  tape.descriptors = now;
  tape.descriptor_count = 2;
  tape.same_descriptors = false;
  tape_pass_descriptor(&tape, &first);
  tape_pass_descriptor(&tape, &none);
  ck_assert(!tape.broken && first == pipes[0] && none == -1);
  tape_pass_descriptor(&tape, &unknown);
  ck_assert(tape.broken && unknown == -1);
  tape_close_rest(&tape);
  ck_assert_int_ge(fcntl(pipes[0], F_GETFD), 0);
  ck_assert_int_lt(fcntl(pipes[1], F_GETFD), 0);
  close(pipes[0]);
  tape_clear(&tape);
}
END_TEST

START_TEST(a_descriptor_that_kept_its_number_is_open_and_taken_once) {
  int pipes[2], closed;
  ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
  closed = pipes[1];
  tape_begin(&tape);
  tape_pass_descriptor(&tape, &pipes[0]);
  tape_pass_descriptor(&tape, &pipes[0]);
  rewind_tape();
  int taken = -1;
  tape_pass_descriptor(&tape, &taken);
  ck_assert(!tape.broken && taken == pipes[0]);
  tape_pass_descriptor(&tape, &taken);
  ck_assert(tape.broken && taken == -1);
  tape_clear(&tape);
  close(closed);
  tape_begin(&tape);
  TAPE_PASS(&tape, closed);
  rewind_tape();
  tape_pass_descriptor(&tape, &taken);
  ck_assert(tape.broken && taken == -1);
  tape_clear(&tape);
  close(pipes[0]);
}
END_TEST

START_TEST(a_flag_that_is_none_breaks_it) {
  unsigned char bytes[] = {1, 0, 2};
  bool flag = false;
  tape_begin(&tape);
  tape_pass(&tape, bytes, sizeof bytes);
  rewind_tape();
  TAPE_PASS(&tape, flag);
  ck_assert(flag && !tape.broken);
  TAPE_PASS(&tape, flag);
  ck_assert(!flag && !tape.broken && !tape_is_at_end(&tape));
  TAPE_PASS(&tape, flag);
  ck_assert(!flag && tape.broken && !tape_is_at_end(&tape));
  tape_clear(&tape);
}
END_TEST

START_TEST(a_time_that_cannot_be_breaks_it) {
  static const int64_t times[] = {0, INT64_MAX / 2, -1, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    int64_t time = times[i];
    tape_begin(&tape);
    TAPE_PASS(&tape, time);
    rewind_tape();
    tape_pass_time(&tape, &time);
    ck_assert(i < 2 ? tape_is_at_end(&tape) && time == times[i] : tape.broken && time == 0);
    tape_clear(&tape);
  }
}
END_TEST

/* Who puts goes on with all of it where the tape has no room. */
START_TEST(a_broken_tape_takes_nothing_from_who_puts) {
  int pipes[2];
  ck_assert_int_eq(pipe(pipes), 0);
  int put = pipes[0];
  unsigned number = 7;
  tape_begin(&tape);
  tape_break(&tape);
  tape_pass_descriptor(&tape, &put);
  tape_pass_below(&tape, &number, 8);
  ck_assert_int_eq(put, pipes[0]);
  ck_assert_uint_eq(number, 7);
  ck_assert_uint_eq(tape.descriptor_count, 0);
  close(pipes[0]);
  close(pipes[1]);
  tape_clear(&tape);
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
  tcase_add_test(all, descriptors_are_found_by_the_number_that_they_had);
  tcase_add_test(all, a_descriptor_that_kept_its_number_is_open_and_taken_once);
  tcase_add_test(all, a_flag_that_is_none_breaks_it);
  tcase_add_test(all, a_broken_tape_takes_nothing_from_who_puts);
  tcase_add_test(all, a_time_that_cannot_be_breaks_it);
  suite_add_tcase(suite, all);
  return suite;
}
