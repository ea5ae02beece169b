/* An index that somebody else wrote: what is believed of it, and what that costs. */
#include "daemon/wire/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/runner.h"

enum { PAYLOAD = 100 };

static FILE *file;
static struct segment_index reading;

static void write_head(uint64_t payload) {
  const struct segment_head head = {
      .magic = SEGMENT_MAGIC, .version = SEGMENT_VERSION, .entry_bytes = sizeof(struct segment_entry), .payload = payload};
  ck_assert_int_eq(pwrite(fileno(file), &head, sizeof head, 0), sizeof head);
}

static void write_entry(uint64_t number, struct segment_entry entry) {
  ck_assert_int_eq(pwrite(fileno(file), &entry, sizeof entry, (off_t)(sizeof(struct segment_head) + number * sizeof entry)),
                   sizeof entry);
}

static struct segment_entry sound(uint64_t number) {
  return (struct segment_entry){.offset = number * PAYLOAD, .bytes = PAYLOAD, .sequence = number, .stamp = 1, .came = 2};
}

static void make_file(void) {
  file = tmpfile();
  ck_assert_ptr_nonnull(file);
  write_head(PAYLOAD);
}

static void close_file(void) { fclose(file); }

START_TEST(entries_are_read_in_any_order) {
  struct segment_entry entry;
  const uint64_t count = 3 * SEGMENT_BLOCK + 5;
  for (uint64_t i = 0; i < count; i++) {
    write_entry(i, sound(i));
  }
  ck_assert(segment_index_open(&reading, fileno(file), (int64_t)count * PAYLOAD + 7));
  ck_assert(reading.count == count && reading.end == (int64_t)count * PAYLOAD);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t number = i * 37 % count;
    ck_assert(segment_index_read(&reading, number, &entry) && entry.sequence == number);
  }
  ck_assert(!segment_index_read(&reading, count, &entry));
  ck_assert(segment_index_open(&reading, fileno(file), 10 * PAYLOAD + 1) && reading.count == 10);
}
END_TEST

/* It has no room on the disk, and says that it has 15 million entries. */
START_TEST(a_sparse_index_costs_nothing) {
  write_entry(0, sound(0));
  ck_assert_int_eq(ftruncate(fileno(file), INT64_C(1) << 40), 0);
  ck_assert(segment_index_open(&reading, fileno(file), 20 * PAYLOAD) && reading.count == 1);
  write_head(0);
  ck_assert(segment_index_open(&reading, fileno(file), 20 * PAYLOAD) && reading.count == 1);
}
END_TEST

START_TEST(entries_that_cannot_be_are_damaged) {
  struct segment_entry entry, entries[] = {sound(0), sound(0), sound(0), sound(0), sound(0), sound(0), sound(0)};
  entries[0].bytes = UINT64_MAX;
  entries[1].offset = UINT64_MAX - 10;
  entries[2].bytes = PAYLOAD - 1;
  entries[3].came = INT64_MAX;
  entries[4].stamp = INT64_MIN;
  entries[5].offset = INT64_C(1) << 62;
  entries[6].bytes = 0;
  write_entry(0, entries[_i]);
  write_entry(1, sound(1));
  ck_assert(segment_index_open(&reading, fileno(file), 2 * PAYLOAD) && reading.count == 2);
  ck_assert(!segment_index_read(&reading, 0, &entry));
  ck_assert(segment_index_read(&reading, 1, &entry));
}
END_TEST

START_TEST(a_deadline_that_never_comes_is_none) {
  struct segment_entry entry = sound(0);
  entry.deadline = INT64_MAX;
  write_entry(0, entry);
  ck_assert(segment_index_open(&reading, fileno(file), PAYLOAD) && segment_index_read(&reading, 0, &entry));
  ck_assert_int_eq(entry.deadline, 0);
}
END_TEST

Suite *segment_suite(void);
Suite *segment_suite(void) {
  Suite *suite = suite_create("segment");
  TCase *all = tcase_create("indexes");
  tcase_add_checked_fixture(all, make_file, close_file);
  tcase_add_test(all, entries_are_read_in_any_order);
  tcase_add_test(all, a_sparse_index_costs_nothing);
  tcase_add_loop_test(all, entries_that_cannot_be_are_damaged, 0, 7);
  tcase_add_test(all, a_deadline_that_never_comes_is_none);
  suite_add_tcase(suite, all);
  return suite;
}
