/* Slots: the table of transitions, the order within queues, and how many may be past READY. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/flow.h"

START_TEST(test_every_transition) {
  static const char *const allowed[] = {"free>filling", "filling>ready",  "filling>free",  "ready>running", "ready>free",
                                        "running>done", "running>failed", "done>emitting", "done>free",     "emitting>free"};
  unsigned found = 0;
  for (int from = 0; from < SLOT_STATES; from++) {
    for (int to = 0; to < SLOT_STATES; to++) {
      char text[64];
      snprintf(text, sizeof text, "%s>%s", slot_state_names[from], slot_state_names[to]);
      bool listed = false;
      for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        listed |= strcmp(text, allowed[i]) == 0;
      }
      ck_assert_msg(slot_may_move((enum slot_state)from, (enum slot_state)to) == listed, "%s", text);
      found += listed;
    }
  }
  ck_assert_uint_eq(found, sizeof allowed / sizeof allowed[0]);
}
END_TEST

START_TEST(test_queues_keep_the_order) {
  struct slot_ring ring;
  slot_ring_init(&ring, 3);
  for (unsigned i = 0; i < 3; i++) {
    struct slot *slot = slot_oldest(&ring, SLOT_FREE);
    ck_assert_uint_eq(slot->index, i);
    slot_move(&ring, slot, SLOT_FILLING);
    slot_move(&ring, slot, SLOT_READY);
  }
  ck_assert_ptr_null(slot_oldest(&ring, SLOT_FREE));
  slot_move(&ring, slot_at(&ring, SLOT_READY, 1), SLOT_FREE);
  ck_assert_uint_eq(slot_at(&ring, SLOT_READY, 0)->index, 0);
  ck_assert_uint_eq(slot_at(&ring, SLOT_READY, 1)->index, 2);
  ck_assert_ptr_null(slot_at(&ring, SLOT_READY, 2));
  ck_assert_uint_eq(slot_oldest(&ring, SLOT_FREE)->index, 1);
}
END_TEST

static void move_to(struct slot_ring *ring, enum slot_state to) {
  struct slot *slot = slot_oldest(ring, SLOT_FREE);
  slot->frame.open = true;
  for (enum slot_state state = SLOT_FILLING; state <= to; state++) {
    slot_move(ring, slot, state);
  }
}

/* One slot in each state from EMITTING down to FILLING: 0 has the oldest frame. 5 is free. */
static void set_up_one_in_each(struct slot_ring *ring) {
  slot_ring_init(ring, 6);
  for (enum slot_state state = SLOT_EMITTING; state >= SLOT_FILLING; state--) {
    move_to(ring, state);
  }
}

static void expect_queue(const struct slot_ring *ring, enum slot_state state, const char *slots) {
  char found[GPU_MAX_SLOTS + 1] = "";
  for (unsigned i = 0; i < ring->queues[state].count; i++) {
    const struct slot *slot = slot_at(ring, state, i);
    ck_assert_int_eq(slot->state, state);
    found[i] = (char)('0' + slot->index);
  }
  ck_assert_str_eq(found, slots);
}

START_TEST(test_arranged_slots_stand_in_the_order_of_their_frames) {
  struct slot_ring ring;
  set_up_one_in_each(&ring);
  const enum slot_state back[GPU_MAX_SLOTS] = {SLOT_DONE, SLOT_DONE, SLOT_READY, SLOT_READY, SLOT_FREE, SLOT_FREE};
  slot_ring_arrange(&ring, back, NULL);
  expect_queue(&ring, SLOT_DONE, "01");
  expect_queue(&ring, SLOT_READY, "23");
  expect_queue(&ring, SLOT_FREE, "45");
  set_up_one_in_each(&ring);
  const enum slot_state on[GPU_MAX_SLOTS] = {SLOT_FREE, SLOT_EMITTING, SLOT_EMITTING, SLOT_READY, SLOT_FILLING, SLOT_FREE};
  const unsigned emitting[GPU_MAX_SLOTS] = {2, 1};
  slot_ring_arrange(&ring, on, emitting);
  expect_queue(&ring, SLOT_EMITTING, "21");
  expect_queue(&ring, SLOT_READY, "3");
  expect_queue(&ring, SLOT_FILLING, "4");
  expect_queue(&ring, SLOT_FREE, "05");
}
END_TEST

/* Over a tape: 2 was on the device, which is gone. */
START_TEST(test_what_was_running_is_ready_again_before_the_others) {
  struct slot_ring ring, next;
  struct codec codec, back;
  set_up_one_in_each(&ring);
  codec_begin(&codec);
  slot_ring_pass(&ring, &codec);
  ck_assert(!codec.broken);
  unsigned char *bytes = malloc(codec.length);
  ck_assert_ptr_nonnull(bytes);
  memcpy(bytes, codec.bytes, codec.length);
  codec_load(&back, bytes, codec.length);
  slot_ring_init(&next, _i == 0 ? 6 : 5);
  slot_ring_pass(&next, &back);
  if (_i == 0) {
    ck_assert(codec_is_at_end(&back));
    expect_queue(&next, SLOT_EMITTING, "0");
    expect_queue(&next, SLOT_DONE, "1");
    expect_queue(&next, SLOT_READY, "23");
    expect_queue(&next, SLOT_RUNNING, "");
    expect_queue(&next, SLOT_FILLING, "4");
    expect_queue(&next, SLOT_FREE, "5");
  } else {
    ck_assert(back.broken); /* so many slots there are not */
  }
  codec_clear(&codec);
  codec_clear(&back);
}
END_TEST

START_TEST(test_depth) {
  ck_assert_uint_eq(flow_depth(CONFIG_OVERLOAD_BLOCK, 2, false), 2);
  ck_assert_uint_eq(flow_depth(CONFIG_OVERLOAD_BLOCK, 2, true), 1);
  ck_assert_uint_eq(flow_depth(CONFIG_OVERLOAD_BLOCK, 1, true), 1);
  ck_assert_uint_eq(flow_depth(CONFIG_OVERLOAD_DROP_NEWEST, 4, false), 4);
  ck_assert_uint_eq(flow_depth(CONFIG_OVERLOAD_DROP_NEWEST, 4, true), 3);
  ck_assert_uint_eq(flow_depth(CONFIG_OVERLOAD_DROP_OLDEST, 3, false), 1);
  ck_assert_uint_eq(flow_depth(CONFIG_OVERLOAD_DROP_OLDEST, 4, true), 2);
}
END_TEST

Suite *slot_suite(void);

Suite *slot_suite(void) {
  Suite *suite = suite_create("slot");
  TCase *tests = tcase_create("slot");
  tcase_add_test(tests, test_every_transition);
  tcase_add_test(tests, test_queues_keep_the_order);
  tcase_add_test(tests, test_arranged_slots_stand_in_the_order_of_their_frames);
  tcase_add_loop_test(tests, test_what_was_running_is_ready_again_before_the_others, 0, 2);
  tcase_add_test(tests, test_depth);
  suite_add_tcase(suite, tests);
  return suite;
}
