/* The ring of a trace: what is read of it is whole, in order, and counted where it was overwritten. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/account.h"
#include "daemon/frame/trace_ring.h"

enum { CAPACITY = 8, ROOM = 32, MANY = 200000 };

static void append(struct trace_ring *ring, uint64_t number) {
  const struct frame frame = {.sequence = number,
                              .first_byte = (int64_t)number + 1,
                              .complete = (int64_t)number + 2,
                              .dispatched = (int64_t)number + 3,
                              .seen = (int64_t)number + 4,
                              .stream = (unsigned)(number % 5),
                              .device = {.begin = (int64_t)number + 6,
                                         .copied_in = (int64_t)number + 7,
                                         .computed = (int64_t)number + 8,
                                         .copied_out = (int64_t)number + 9,
                                         .h2d = (int64_t)number + 10,
                                         .kernel = (int64_t)number + 11,
                                         .d2h = (int64_t)number + 12}};
  trace_ring_append(ring, &frame, (enum fate)(number % FATE_COUNT), (int64_t)number + 5);
}

static bool is_whole(const struct trace_record *record, uint64_t number) {
  int64_t base = (int64_t)number;
  return record->sequence == number && record->first_byte == base + 1 && record->complete == base + 2 &&
         record->dispatched == base + 3 && record->seen == base + 4 && record->settled == base + 5 &&
         record->begin == base + 6 && record->copied_in == base + 7 && record->computed == base + 8 &&
         record->copied_out == base + 9 && record->h2d == base + 10 && record->kernel == base + 11 &&
         record->d2h == base + 12 && record->fate == number % FATE_COUNT && record->stream == number % 5;
}

START_TEST(gives_what_was_put_in) {
  struct trace_ring *ring = trace_ring_new(CAPACITY);
  struct trace_record records[ROOM];
  uint64_t position = trace_ring_end(ring), overwritten = 0;
  ck_assert_uint_eq(trace_ring_read(ring, &position, records, ROOM, &overwritten), 0);
  for (uint64_t i = 0; i < 5; i++) {
    append(ring, i);
  }
  ck_assert_uint_eq(trace_ring_read(ring, &position, records, 3, &overwritten), 3);
  ck_assert_uint_eq(trace_ring_read(ring, &position, records + 3, ROOM, &overwritten), 2);
  for (uint64_t i = 0; i < 5; i++) {
    ck_assert(is_whole(&records[i], i));
  }
  ck_assert_uint_eq(trace_ring_read(ring, &position, records, ROOM, &overwritten), 0);
  ck_assert_uint_eq(overwritten, 0);
  trace_ring_drop(ring);
}
END_TEST

START_TEST(counts_what_was_overwritten) {
  struct trace_ring *ring = trace_ring_new(CAPACITY);
  struct trace_record records[ROOM];
  uint64_t position = 0, overwritten = 0;
  for (uint64_t i = 0; i < CAPACITY + 3; i++) {
    append(ring, i);
  }
  ck_assert_uint_eq(trace_ring_read(ring, &position, records, ROOM, &overwritten), CAPACITY);
  ck_assert_uint_eq(overwritten, 3);
  for (uint64_t i = 0; i < CAPACITY; i++) {
    ck_assert(is_whole(&records[i], i + 3));
  }
  ck_assert_uint_eq(position, CAPACITY + 3);
  trace_ring_drop(ring);
}
END_TEST

START_TEST(each_reader_has_its_own_position) {
  struct trace_ring *ring = trace_ring_new(CAPACITY);
  struct trace_record records[ROOM];
  append(ring, 0);
  uint64_t late = trace_ring_end(ring), early = 0, overwritten = 0;
  append(ring, 1);
  ck_assert_uint_eq(trace_ring_read(ring, &late, records, ROOM, &overwritten), 1);
  ck_assert(is_whole(&records[0], 1));
  ck_assert_uint_eq(trace_ring_read(ring, &early, records, ROOM, &overwritten), 2);
  trace_ring_drop(ring);
}
END_TEST

static void *write_many(void *context) {
  for (uint64_t i = 0; i < MANY; i++) {
    append(context, i);
  }
  return trace_ring_drop(context);
}

/* The reader is often overtaken; whatever it gets must be whole, and nothing may be missing without being counted. */
START_TEST(survives_a_writer_that_overtakes) {
  struct trace_ring *ring = trace_ring_new(CAPACITY);
  struct trace_record records[ROOM];
  uint64_t position = 0, overwritten = 0, got = 0;
  pthread_t writer;
  ck_assert_int_eq(pthread_create(&writer, NULL, write_many, trace_ring_hold(ring)), 0);
  uint64_t last = 0;
  while (position < MANY) {
    unsigned count = trace_ring_read(ring, &position, records, ROOM, &overwritten);
    for (unsigned i = 0; i < count; i++, got++) {
      if (!is_whole(&records[i], records[i].sequence) || (got > 0 && records[i].sequence <= last)) {
        ck_abort_msg("record %llu after %llu is torn or out of order", (unsigned long long)records[i].sequence,
                     (unsigned long long)last);
      }
      last = records[i].sequence;
    }
  }
  pthread_join(writer, NULL);
  ck_assert_uint_eq(got + overwritten, MANY);
  ck_assert_uint_eq(last, MANY - 1);
  trace_ring_drop(ring);
}
END_TEST

START_TEST(only_frames_settled_during_a_trace_are_recorded) {
  struct account *account = calloc(1, sizeof *account);
  struct trace_ring *ring = trace_ring_new(CAPACITY);
  struct trace_record record;
  uint64_t position = 0, overwritten = 0;
  for (uint64_t i = 0; i < 3; i++) {
    struct frame frame = {.sequence = i};
    atomic_store(&account->trace, i == 1 ? ring : NULL);
    account_open(account, &frame);
    account_settle(account, &frame, FATE_LATE, 70);
  }
  ck_assert_uint_eq(trace_ring_read(ring, &position, &record, 1, &overwritten), 1);
  ck_assert_uint_eq(record.sequence, 1);
  ck_assert_uint_eq(record.fate, FATE_LATE);
  ck_assert_int_eq(record.settled, 70);
  ck_assert_uint_eq(trace_ring_read(ring, &position, &record, 1, &overwritten), 0);
  trace_ring_drop(ring);
  free(account);
}
END_TEST

Suite *trace_ring_suite(void);
Suite *trace_ring_suite(void) {
  Suite *suite = suite_create("trace_ring");
  TCase *cases = tcase_create("trace_ring");
  tcase_add_test(cases, gives_what_was_put_in);
  tcase_add_test(cases, counts_what_was_overwritten);
  tcase_add_test(cases, each_reader_has_its_own_position);
  tcase_add_test(cases, survives_a_writer_that_overtakes);
  tcase_add_test(cases, only_frames_settled_during_a_trace_are_recorded);
  suite_add_tcase(suite, cases);
  return suite;
}
