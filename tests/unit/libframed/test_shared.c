/* Frames and results in shared memory: who has which slot, when the daemon is woken, and lies in the control memory. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/libframed/fake.h"
#include "tests/unit/runner.h"

static struct fake fake;
static struct framed *client;

static void open_as(int role) { client = fake_client(&fake, role, FRAMED_SHARED); }

static void make(void) { open_as(FRAMED_BOTH); }

static void clear(void) {
  client = framed_close(client);
  fake_close(&fake);
}

static bool has_rung(void) {
  unsigned char byte;
  return recv(fake.fd, &byte, 1, MSG_DONTWAIT) == 1 && byte == NATIVE_DOORBELL;
}

START_TEST(a_frame_goes_and_its_result_comes) {
  fake_submit(client, 5);
  struct native_submission *said = &fake.control->submissions[0];
  ck_assert_uint_eq(atomic_load(&fake.control->client.submitted), 1);
  ck_assert_uint_eq(said->frame.sequence, 5);
  ck_assert_int_eq(said->frame.timestamp, 11);
  ck_assert_int_eq(said->frame.deadline, 22);
  ck_assert_uint_eq(fake.input[said->slot * FAKE_STRIDE + FAKE_INPUT - 1], 5);
  struct framed_result result;
  ck_assert_int_eq(framed_receive(client, &result), 0);
  memset(fake.output + said->slot * FAKE_STRIDE, 250, FAKE_OUTPUT);
  fake_complete(&fake, said->slot, FRAMED_EMITTED, 5);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, 0), FRAMED_RESULT | FRAMED_ROOM);
  ck_assert_int_eq(framed_receive(client, &result), 1);
  ck_assert_uint_eq(result.sequence, 5);
  ck_assert_uint_eq(result.dropped, 2);
  ck_assert_uint_eq(result.size, FAKE_OUTPUT);
  ck_assert_uint_eq(((const unsigned char *)result.data)[FAKE_OUTPUT - 1], 250);
  ck_assert_uint_eq(atomic_load(&fake.control->client.taken), 0);
  framed_release(client, &result);
  ck_assert_uint_eq(atomic_load(&fake.control->client.taken), 1);
  framed_release(client, &result); /* once is enough */
  ck_assert_uint_eq(atomic_load(&fake.control->client.taken), 1);
}
END_TEST

START_TEST(slots_come_back_in_order) {
  struct framed_result results[FAKE_SLOTS];
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    fake_submit(client, i);
    fake_complete(&fake, i, FRAMED_EMITTED, i);
  }
  ck_assert_ptr_null(framed_acquire(client));
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    ck_assert_int_eq(framed_receive(client, &results[i]), 1);
  }
  framed_release(client, &results[2]);
  framed_release(client, &results[1]);
  ck_assert_ptr_null(framed_acquire(client)); /* the first one is held */
  framed_release(client, &results[0]);
  ck_assert_uint_eq(atomic_load(&fake.control->client.taken), 3);
  for (int i = 0; i < 3; i++) {
    ck_assert_ptr_nonnull(framed_acquire(client));
  }
  ck_assert_ptr_null(framed_acquire(client));
}
END_TEST

/* Cursors pass many times through the ring. */
START_TEST(many_frames) {
  for (unsigned i = 0; i < 1000; i++) {
    struct framed_result result;
    fake_submit(client, i);
    fake_complete(&fake, fake.control->submissions[i % NATIVE_RING].slot, i % 5 == 0 ? FRAMED_LATE : FRAMED_EMITTED, i);
    ck_assert_int_eq(framed_receive(client, &result), 1);
    ck_assert_uint_eq(result.sequence, i);
    ck_assert_int_eq(result.data == NULL, i % 5 == 0);
    ck_assert_int_eq(result.fate, i % 5 == 0 ? FRAMED_LATE : FRAMED_EMITTED);
    framed_release(client, &result);
    ck_assert_uint_eq(atomic_load(&fake.control->client.taken), i + 1);
  }
}
END_TEST

START_TEST(a_daemon_that_sleeps_is_woken_once) {
  fake_submit(client, 0);
  ck_assert(!has_rung());
  atomic_store(&fake.control->daemon.sleeps, 1);
  fake_submit(client, 1);
  fake_submit(client, 2);
  ck_assert(has_rung());
  ck_assert(!has_rung());
  ck_assert_uint_eq(atomic_load(&fake.control->daemon.sleeps), 0);
}
END_TEST

START_TEST(a_client_that_sleeps_is_woken) {
  short conditions;
  fake_submit(client, 0);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, 1000000), 0);
  ck_assert_uint_eq(atomic_load(&fake.control->client.sleeps), 0);
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
  ck_assert_int_eq(conditions, POLLIN);
  ck_assert(fake_complete(&fake, 0, FRAMED_EMITTED, 0));
  struct pollfd ready = {.fd = framed_descriptor(client), .events = conditions};
  ck_assert_int_eq(poll(&ready, 1, 0), 1);
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), FRAMED_RESULT | FRAMED_ROOM);
  ck_assert_int_eq(poll(&ready, 1, 0), 0); /* the doorbell was taken */
}
END_TEST

START_TEST(a_producer_gets_its_slots_back) {
  clear();
  open_as(FRAMED_PRODUCER);
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    fake_submit(client, i);
  }
  ck_assert_int_eq(framed_poll(client, FRAMED_ROOM, 0), 0);
  fake_complete(&fake, 2, FRAMED_EMITTED, 0);
  ck_assert_int_eq(framed_poll(client, FRAMED_ROOM, 0), FRAMED_ROOM);
  ck_assert_uint_eq(atomic_load(&fake.control->client.taken), 1);
  ck_assert_int_eq(framed_finish(client), 0);
  ck_assert_ptr_null(framed_acquire(client));
  ck_assert_int_eq(framed_poll(client, 0, 0), 0);
  for (unsigned slot = 0; slot < FAKE_SLOTS; slot++) {
    if (slot != 2) {
      fake_complete(&fake, slot, FRAMED_EMITTED, 0);
    }
  }
  ck_assert_int_eq(framed_poll(client, 0, 0), FRAMED_END);
}
END_TEST

START_TEST(a_consumer_is_lent_results) {
  clear();
  open_as(FRAMED_CONSUMER);
  struct framed_result result;
  ck_assert_ptr_null(framed_acquire(client));
  memset(fake.output + FAKE_STRIDE, 7, FAKE_OUTPUT);
  fake_complete(&fake, 1, FRAMED_EMITTED, 40);
  ck_assert_int_eq(framed_receive(client, &result), 1);
  ck_assert_uint_eq(((const unsigned char *)result.data)[0], 7);
  framed_release(client, &result);
  ck_assert_uint_eq(atomic_load(&fake.control->client.taken), 1);
  ck_assert(!has_rung());
  shutdown(fake.fd, SHUT_RDWR);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_END);
}
END_TEST

/* Nothing else would tell a daemon that waits for a slot. */
START_TEST(a_consumer_rings_for_what_it_gives_back) {
  struct framed_result results[3];
  clear();
  open_as(FRAMED_CONSUMER);
  for (unsigned slot = 0; slot < 3; slot++) {
    fake_complete(&fake, slot, FRAMED_EMITTED, slot);
    ck_assert_int_eq(framed_receive(client, &results[slot]), 1);
  }
  atomic_store(&fake.control->daemon.sleeps, 1);
  framed_release(client, &results[1]);
  ck_assert(!has_rung()); /* which gives nothing back yet */
  framed_release(client, &results[0]);
  ck_assert_uint_eq(atomic_load(&fake.control->client.taken), 2);
  ck_assert(has_rung());
  framed_release(client, &results[2]);
  ck_assert(!has_rung());
}
END_TEST

/* A result is written over, or another's, from then on. */
START_TEST(what_a_consumer_has_not_received_goes_with_the_connection) {
  struct framed_result result;
  clear();
  open_as(FRAMED_CONSUMER);
  fake_complete(&fake, 0, FRAMED_EMITTED, 0);
  fake_complete(&fake, 1, FRAMED_EMITTED, 1);
  ck_assert_int_eq(framed_receive(client, &result), 1);
  fake_error(&fake, _i == 0 ? NATIVE_E_TIMEOUT : NATIVE_E_STOPPING, "that was it");
  ck_assert_int_eq(framed_poll(client, FRAMED_ROOM, 1000000000), FRAMED_FAILED);
  ck_assert_int_eq(framed_receive(client, &result), FRAMED_FAILED);
  ck_assert_str_eq(framed_problem(client)->text, "that was it");
}
END_TEST

/* -- what may not be ---------------------------------------------------------------------------------------------------- */

static void lie_wrong_slot(void) { fake_complete(&fake, 99, FRAMED_EMITTED, 0); }
static void lie_free_slot(void) { fake_complete(&fake, 3, FRAMED_EMITTED, 0); }
static void lie_cursor_ahead(void) { atomic_store(&fake.control->daemon.completed, 5); }
static void lie_cursor_back(void) { atomic_store(&fake.control->daemon.completed, UINT32_MAX); }
static void lie_bytes(void) { fake_send(&fake, "what is this, pray", 18); }

static void (*const lies[])(void) = {lie_wrong_slot, lie_free_slot, lie_cursor_ahead, lie_cursor_back, lie_bytes};

START_TEST(lies_break_the_client) {
  struct framed_result result;
  fake_submit(client, 0);
  lies[_i]();
  int there = framed_poll(client, FRAMED_RESULT, -1);
  ck_assert_int_eq(there > 0 ? framed_receive(client, &result) : there, FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_DAEMON);
  ck_assert_ptr_null(framed_acquire(client));
  ck_assert_int_eq(framed_finish(client), FRAMED_FAILED);
  ck_assert_int_eq(framed_receive(client, &result), FRAMED_FAILED);
}
END_TEST

START_TEST(a_slot_twice_breaks_the_client) {
  struct framed_result result;
  fake_submit(client, 0);
  fake_submit(client, 1);
  fake_complete(&fake, 0, FRAMED_EMITTED, 0);
  fake_complete(&fake, 0, FRAMED_EMITTED, 1);
  ck_assert_int_eq(framed_receive(client, &result), 1);
  ck_assert_int_eq(framed_receive(client, &result), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_DAEMON);
}
END_TEST

/* The last words come behind doorbells, and results that came before are not lost. */
START_TEST(an_error_at_the_end) {
  struct framed_result result;
  fake_submit(client, 0);
  fake_complete(&fake, 0, FRAMED_EMITTED, 0);
  fake_send(&fake, "\0\0", 3);
  fake_error(&fake, NATIVE_E_STOPPING, "the daemon stops");
  shutdown(fake.fd, SHUT_RDWR);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT | FRAMED_ROOM);
  ck_assert_int_eq(framed_receive(client, &result), 1);
  framed_release(client, &result);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_STOPPING);
  ck_assert_str_eq(framed_problem(client)->text, "the daemon stops");
}
END_TEST

START_TEST(mistakes_of_the_caller) {
  struct framed_result result;
  char stranger[FAKE_INPUT];
  unsigned char *frame = framed_acquire(client);
  ck_assert_int_eq(framed_submit(client, stranger, 0, 0, 0), FRAMED_FAILED);
  ck_assert_int_eq(framed_submit(client, frame + 1, 0, 0, 0), FRAMED_FAILED);
  ck_assert_int_eq(framed_submit(client, frame + FAKE_STRIDE, 0, 0, 0), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_USAGE);
  framed_cancel(client, stranger);
  framed_cancel(client, frame);
  ck_assert_int_eq(framed_submit(client, frame, 0, 0, 0), FRAMED_FAILED);
  ck_assert_ptr_eq(framed_acquire(client), frame);
  ck_assert_int_eq(framed_submit(client, frame, 0, 0, 0), 0);
  ck_assert_int_eq(framed_submit(client, frame, 0, 0, 0), FRAMED_FAILED);
  frame = framed_acquire(client);
  ck_assert_int_eq(framed_finish(client), 0);
  ck_assert_int_eq(framed_submit(client, frame, 0, 0, 0), FRAMED_FAILED);
  fake_complete(&fake, 0, FRAMED_EMITTED, 0);
  ck_assert_int_eq(framed_receive(client, &result), 1); /* it goes on all the same */
}
END_TEST

Suite *shared_suite(void);

Suite *shared_suite(void) {
  Suite *suite = suite_create("shared");
  TCase *group = tcase_create("memory");
  tcase_set_timeout(group, 60);
  tcase_add_checked_fixture(group, make, clear);
  tcase_add_test(group, a_frame_goes_and_its_result_comes);
  tcase_add_test(group, slots_come_back_in_order);
  tcase_add_test(group, many_frames);
  tcase_add_test(group, a_daemon_that_sleeps_is_woken_once);
  tcase_add_test(group, a_client_that_sleeps_is_woken);
  tcase_add_test(group, a_producer_gets_its_slots_back);
  tcase_add_test(group, a_consumer_is_lent_results);
  tcase_add_test(group, a_consumer_rings_for_what_it_gives_back);
  tcase_add_loop_test(group, what_a_consumer_has_not_received_goes_with_the_connection, 0, 2);
  tcase_add_loop_test(group, lies_break_the_client, 0, (int)(sizeof lies / sizeof lies[0]));
  tcase_add_test(group, a_slot_twice_breaks_the_client);
  tcase_add_test(group, an_error_at_the_end);
  tcase_add_test(group, mistakes_of_the_caller);
  suite_add_tcase(suite, group);
  return suite;
}
