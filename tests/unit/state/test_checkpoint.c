/* The chronicle: the last note of a page is what the next process reads, or it knows that it knows nothing. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/state/checkpoint.h"

enum { DAMAGES = 10000, OFTEN = 50 };

static void begin(void) { ck_assert(checkpoint_open()); }

static void end(void) { checkpoint_look_away(); }

static void note(struct record *record, uint64_t number) {
  struct codec codec;
  record_begin(record, &codec);
  CODEC_PASS(&codec, number);
  record_end(record, &codec);
}

/* What the next process makes of a page: the number that was noted, 0 if there is none. */
static uint64_t look(uint64_t name, enum record_state *state) {
  struct codec codec;
  bool noted;
  uint64_t number = 0;
  ck_assert(checkpoint_look_into(checkpoint_fd()));
  *state = checkpoint_read(name, &codec, &noted);
  if (noted) {
    CODEC_PASS(&codec, number);
    ck_assert(codec_is_at_end(&codec));
  }
  codec_clear(&codec);
  checkpoint_look_away();
  return number;
}

static void expect(const struct record *record, enum record_state state, uint64_t number) {
  enum record_state seen;
  ck_assert_uint_eq(look(record_name(record), &seen), number);
  ck_assert_int_eq(seen, state);
}

START_TEST(the_last_note_counts) {
  struct record *record = record_new();
  expect(record, RECORD_EMPTY, 0);
  for (uint64_t number = 1; number < OFTEN; number++) {
    note(record, number);
    expect(record, RECORD_NOTED, number);
  }
  record_free(record);
}
END_TEST

START_TEST(a_note_that_is_being_written_is_none_yet) {
  struct codec codec;
  struct record *record = record_new();
  record_begin(record, &codec);
  expect(record, RECORD_EMPTY, 0);
  record_end(record, &codec);
  note(record, 7);
  record_begin(record, &codec);
  expect(record, RECORD_NOTED, 7);
  record_end(record, &codec);
  record_free(record);
}
END_TEST

START_TEST(a_mark_stays_until_the_next_note) {
  struct record *record = record_new();
  record_touch(record);
  expect(record, RECORD_TOUCHED, 0);
  record_untouch(record);
  expect(record, RECORD_EMPTY, 0);
  note(record, 1);
  record_touch(record);
  expect(record, RECORD_TOUCHED, 1);
  note(record, 2);
  expect(record, RECORD_NOTED, 2);
  record_free(record);
  record_touch(NULL);
  record_untouch(NULL);
}
END_TEST

START_TEST(a_page_of_somebody_else_tells_nothing) {
  enum record_state state;
  struct record *record = record_new();
  uint64_t before = record_name(record);
  note(record, 5);
  record_free(record);
  struct record *again = record_new();
  ck_assert_ptr_eq(record, again);
  ck_assert_uint_eq(look(before, &state), 0);
  ck_assert_int_eq(state, RECORD_UNKNOWN);
  expect(again, RECORD_EMPTY, 0);
  ck_assert_uint_eq(look(0, &state), 0);
  ck_assert_int_eq(state, RECORD_UNKNOWN);
  record_free(again);
}
END_TEST

START_TEST(a_note_that_is_too_long_leaves_nothing_to_believe) {
  static unsigned char bytes[RECORD_NOTE];
  struct codec codec;
  struct record *record = record_new();
  note(record, 1);
  record_begin(record, &codec);
  codec_pass(&codec, bytes, sizeof bytes);
  codec_pass(&codec, bytes, 1);
  ck_assert(codec.broken);
  record_end(record, &codec);
  expect(record, RECORD_UNKNOWN, 0);
  record_free(record);
}
END_TEST

START_TEST(there_are_so_many_pages) {
  struct record **pages = calloc(CHECKPOINT_RECORDS, sizeof(struct record *));
  unsigned count = 0;
  struct record *record = NULL;
  while ((record = record_new()) != NULL) {
    pages[count++] = record;
  }
  ck_assert_uint_eq(count, CHECKPOINT_RECORDS);
  ck_assert_uint_eq(record_name(NULL), 0);
  while (count > 0) {
    record_free(pages[--count]);
  }
  free(pages);
}
END_TEST

/* Wherever a byte of a page is another one: the note as it was, or nothing. In each place that is looked at often. */
START_TEST(damage_is_found) {
  struct record *record = record_new();
  const size_t shown = offsetof(struct note, bytes) + sizeof(uint64_t);
  const struct reader_entry {
    size_t at, length;
  } places[] = {{0, offsetof(struct record, next)},
                {offsetof(struct record, notes), shown},
                {offsetof(struct record, notes) + sizeof(struct note), shown}};
  unsigned found[3] = {0};
  note(record, 1111);
  note(record, 2222);
  const uint64_t name = record_name(record);
  srand(1);
  for (int i = 0; i < DAMAGES; i++) {
    const struct reader_entry *place = &places[i % 3];
    unsigned char *byte = (unsigned char *)record + place->at + (size_t)rand() % place->length;
    unsigned char before = *byte;
    *byte = (unsigned char)rand();
    enum record_state state;
    uint64_t number = look(name, &state);
    ck_assert(number == 2222 || (number == 0 && state == RECORD_UNKNOWN));
    found[i % 3] += number == 0;
    *byte = before;
  }
  ck_assert_uint_gt(found[0], DAMAGES / 6);
  ck_assert_uint_gt(found[2], DAMAGES / 6);
  expect(record, RECORD_NOTED, 2222);
  record_free(record);
}
END_TEST

START_TEST(whatever_stands_where_the_mark_is_is_one) {
  struct record *record = record_new();
  note(record, 1);
  for (unsigned value = 1; value <= UINT8_MAX; value++) {
    *(unsigned char *)&record->touched = (unsigned char)value;
    expect(record, RECORD_TOUCHED, 1);
  }
  record_free(record);
}
END_TEST

START_TEST(what_is_no_chronicle_is_not_looked_into) {
  int fd = memfd_create("other", MFD_CLOEXEC);
  ck_assert(!checkpoint_look_into(fd));
  ck_assert_int_eq(ftruncate(fd, 4096), 0);
  ck_assert(!checkpoint_look_into(fd));
  close(fd);
  checkpoint_look_away();
}
END_TEST

Suite *checkpoint_suite(void);

Suite *checkpoint_suite(void) {
  Suite *suite = suite_create("checkpoint");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, begin, end);
  tcase_add_test(all, the_last_note_counts);
  tcase_add_test(all, a_note_that_is_being_written_is_none_yet);
  tcase_add_test(all, a_mark_stays_until_the_next_note);
  tcase_add_test(all, a_page_of_somebody_else_tells_nothing);
  tcase_add_test(all, a_note_that_is_too_long_leaves_nothing_to_believe);
  tcase_add_test(all, there_are_so_many_pages);
  tcase_add_test(all, damage_is_found);
  tcase_add_test(all, whatever_stands_where_the_mark_is_is_one);
  tcase_add_test(all, what_is_no_chronicle_is_not_looked_into);
  suite_add_tcase(suite, all);
  return suite;
}
