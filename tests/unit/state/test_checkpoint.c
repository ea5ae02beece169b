/* The chronicle: the last note of a page is what the next process reads, or it knows that it knows nothing. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/state/checkpoint.h"

enum { DAMAGES = 10000, OFTEN = 50 };

static void begin(void) { ck_assert(chronicle_open()); }

static void end(void) { chronicle_look_away(); }

static void note(struct page *page, uint64_t number) {
  struct tape tape;
  page_begin(page, &tape);
  TAPE_PASS(&tape, number);
  page_end(page, &tape);
}

/* What the next process makes of a page: the number that was noted, 0 if there is none. */
static uint64_t look(uint64_t name, enum page_state *state) {
  struct tape tape;
  bool noted;
  uint64_t number = 0;
  ck_assert(chronicle_look_into(chronicle_fd()));
  *state = chronicle_read(name, &tape, &noted);
  if (noted) {
    TAPE_PASS(&tape, number);
    ck_assert(tape_is_at_end(&tape));
  }
  tape_clear(&tape);
  chronicle_look_away();
  return number;
}

static void expect(const struct page *page, enum page_state state, uint64_t number) {
  enum page_state seen;
  ck_assert_uint_eq(look(page_name(page), &seen), number);
  ck_assert_int_eq(seen, state);
}

START_TEST(the_last_note_counts) {
  struct page *page = page_new();
  expect(page, PAGE_EMPTY, 0);
  for (uint64_t number = 1; number < OFTEN; number++) {
    note(page, number);
    expect(page, PAGE_NOTED, number);
  }
  page_free(page);
}
END_TEST

START_TEST(a_note_that_is_being_written_is_none_yet) {
  struct tape tape;
  struct page *page = page_new();
  page_begin(page, &tape);
  expect(page, PAGE_EMPTY, 0);
  page_end(page, &tape);
  note(page, 7);
  page_begin(page, &tape);
  expect(page, PAGE_NOTED, 7);
  page_end(page, &tape);
  page_free(page);
}
END_TEST

START_TEST(a_mark_stays_until_the_next_note) {
  struct page *page = page_new();
  page_touch(page);
  expect(page, PAGE_TOUCHED, 0);
  page_untouch(page);
  expect(page, PAGE_EMPTY, 0);
  note(page, 1);
  page_touch(page);
  expect(page, PAGE_TOUCHED, 1);
  note(page, 2);
  expect(page, PAGE_NOTED, 2);
  page_free(page);
  page_touch(NULL);
  page_untouch(NULL);
}
END_TEST

START_TEST(a_page_of_somebody_else_tells_nothing) {
  enum page_state state;
  struct page *page = page_new();
  uint64_t before = page_name(page);
  note(page, 5);
  page_free(page);
  struct page *again = page_new();
  ck_assert_ptr_eq(page, again);
  ck_assert_uint_eq(look(before, &state), 0);
  ck_assert_int_eq(state, PAGE_UNKNOWN);
  expect(again, PAGE_EMPTY, 0);
  ck_assert_uint_eq(look(0, &state), 0);
  ck_assert_int_eq(state, PAGE_UNKNOWN);
  page_free(again);
}
END_TEST

START_TEST(a_note_that_is_too_long_leaves_nothing_to_believe) {
  static unsigned char bytes[PAGE_NOTE];
  struct tape tape;
  struct page *page = page_new();
  note(page, 1);
  page_begin(page, &tape);
  tape_pass(&tape, bytes, sizeof bytes);
  tape_pass(&tape, bytes, 1);
  ck_assert(tape.broken);
  page_end(page, &tape);
  expect(page, PAGE_UNKNOWN, 0);
  page_free(page);
}
END_TEST

START_TEST(there_are_so_many_pages) {
  struct page **pages = calloc(CHRONICLE_PAGES, sizeof(struct page *));
  unsigned count = 0;
  struct page *page = NULL;
  while ((page = page_new()) != NULL) {
    pages[count++] = page;
  }
  ck_assert_uint_eq(count, CHRONICLE_PAGES);
  ck_assert_uint_eq(page_name(NULL), 0);
  while (count > 0) {
    page_free(pages[--count]);
  }
  free(pages);
}
END_TEST

/* Wherever a byte of a page is another one: the note as it was, or nothing. In each place that is looked at often. */
START_TEST(damage_is_found) {
  struct page *page = page_new();
  const size_t shown = offsetof(struct note, bytes) + sizeof(uint64_t);
  const struct place {
    size_t at, length;
  } places[] = {{0, offsetof(struct page, next)},
                {offsetof(struct page, notes), shown},
                {offsetof(struct page, notes) + sizeof(struct note), shown}};
  unsigned found[3] = {0};
  note(page, 1111);
  note(page, 2222);
  const uint64_t name = page_name(page);
  srand(1);
  for (int i = 0; i < DAMAGES; i++) {
    const struct place *place = &places[i % 3];
    unsigned char *byte = (unsigned char *)page + place->at + (size_t)rand() % place->length;
    unsigned char before = *byte;
    *byte = (unsigned char)rand();
    enum page_state state;
    uint64_t number = look(name, &state);
    ck_assert(number == 2222 || (number == 0 && state == PAGE_UNKNOWN));
    found[i % 3] += number == 0;
    *byte = before;
  }
  ck_assert_uint_gt(found[0], DAMAGES / 6);
  ck_assert_uint_gt(found[2], DAMAGES / 6);
  expect(page, PAGE_NOTED, 2222);
  page_free(page);
}
END_TEST

START_TEST(whatever_stands_where_the_mark_is_is_one) {
  struct page *page = page_new();
  note(page, 1);
  for (unsigned value = 1; value <= UINT8_MAX; value++) {
    *(unsigned char *)&page->touched = (unsigned char)value;
    expect(page, PAGE_TOUCHED, 1);
  }
  page_free(page);
}
END_TEST

START_TEST(what_is_no_chronicle_is_not_looked_into) {
  int fd = memfd_create("other", MFD_CLOEXEC);
  ck_assert(!chronicle_look_into(fd));
  ck_assert_int_eq(ftruncate(fd, 4096), 0);
  ck_assert(!chronicle_look_into(fd));
  close(fd);
  chronicle_look_away();
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
