/* Slots: the table of transitions, the order within queues, and how many may be past READY. */
#include <check.h>
#include <stdio.h>

#include "daemon/frame/flow.h"

START_TEST(test_every_transition) {
  static const char *const allowed[] = {"free>filling",  "filling>ready", "filling>free",   "ready>running",
                                        "ready>free",    "running>done",  "running>failed", "running>free",
                                        "done>emitting", "done>free",     "emitting>free"};
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

/* Of a process before this one: 2 was on the device, which is gone; the fate of 1 was just being told. */
START_TEST(test_what_was_running_is_ready_again_before_the_others) {
  struct slot_ring ring, next;
  set_up_one_in_each(&ring);
  for (unsigned i = 0; i < 5; i++) {
    ring.slots[i].frame.sequence = 10 + i;
  }
  ring.slots[1].frame.open = false;
  slot_ring_init(&next, 6);
  ck_assert(slot_ring_adopt(&next, &ring));
  expect_queue(&next, SLOT_EMITTING, "0");
  expect_queue(&next, SLOT_READY, "23");
  expect_queue(&next, SLOT_RUNNING, "");
  expect_queue(&next, SLOT_FILLING, "4");
  expect_queue(&next, SLOT_FREE, "51");
  slot_ring_init(&next, 5);
  ck_assert(!slot_ring_adopt(&next, &ring)); /* so many slots there are not */
}
END_TEST

static void set_byte(void *at) { *(unsigned char *)at = 7; }

START_TEST(test_nonsense_is_not_adopted) {
  struct slot_ring ring, next;
  struct slot *slot = &ring.slots[2];
  for (int what = 0; what < 6; what++) {
    set_up_one_in_each(&ring);
    switch (what) {
    case 0:
      slot->state = SLOT_STATES;
      break;
    case 1:
      set_byte(&slot->awaits_fate);
      break;
    case 2:
      set_byte(&slot->frame.open);
      break;
    case 3:
      slot->frame.fate = FATE_COUNT;
      break;
    case 4:
      slot->frame.device.told = -1;
      break;
    default:
      slot->frame.stream = GPU_MAX_SLOTS;
    }
    slot_ring_init(&next, 6);
    ck_assert_msg(!slot_ring_adopt(&next, &ring), "%d", what);
  }
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
  tcase_add_test(tests, test_what_was_running_is_ready_again_before_the_others);
  tcase_add_test(tests, test_nonsense_is_not_adopted);
  tcase_add_test(tests, test_depth);
  suite_add_tcase(suite, tests);
  return suite;
}
