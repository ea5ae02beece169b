/* Slots: the table of transitions, the order within queues, and how many may be past READY. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "daemon/road.h"

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

START_TEST(test_depth) {
  ck_assert_uint_eq(road_depth(CONFIG_OVERLOAD_BLOCK, 2, false), 2);
  ck_assert_uint_eq(road_depth(CONFIG_OVERLOAD_BLOCK, 2, true), 1);
  ck_assert_uint_eq(road_depth(CONFIG_OVERLOAD_BLOCK, 1, true), 1);
  ck_assert_uint_eq(road_depth(CONFIG_OVERLOAD_DROP_NEWEST, 4, false), 4);
  ck_assert_uint_eq(road_depth(CONFIG_OVERLOAD_DROP_NEWEST, 4, true), 3);
  ck_assert_uint_eq(road_depth(CONFIG_OVERLOAD_DROP_OLDEST, 3, false), 1);
  ck_assert_uint_eq(road_depth(CONFIG_OVERLOAD_DROP_OLDEST, 4, true), 2);
}
END_TEST

Suite *slot_suite(void);

Suite *slot_suite(void) {
  Suite *suite = suite_create("slot");
  TCase *tests = tcase_create("slot");
  tcase_add_test(tests, test_every_transition);
  tcase_add_test(tests, test_queues_keep_the_order);
  tcase_add_test(tests, test_depth);
  suite_add_tcase(suite, tests);
  return suite;
}
