/* Messages run once each and in order, also where one of them runs the others. */
#include "daemon/base/mailbox.h"

#include "tests/unit/runner.h"

enum { COUNT = 4 };

struct numbered {
  struct message message; /* first */
  unsigned number;
};

static uv_loop_t loop;
static struct mailbox mailbox;
static struct numbered messages[COUNT];
static unsigned ran[COUNT + 1], count;

static void note(struct message *message) { ran[count++] = ((struct numbered *)message)->number; }

/* What was posted before it and behind it has run once this returns, and what comes meanwhile as well. */
static void run_others(struct message *message) {
  note(message);
  mailbox_post(&mailbox, &messages[COUNT - 1].message);
  ck_assert(mailbox_run(&mailbox));
  ck_assert_uint_eq(count, COUNT);
  ck_assert(!mailbox_run(&mailbox));
}

static void set_up(void) {
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(mailbox_open(&mailbox, &loop), 0);
  count = 0;
  for (unsigned i = 0; i < COUNT; i++) {
    messages[i] = (struct numbered){.message = {.run = note}, .number = i};
  }
}

static void tear_down(void) {
  mailbox_close(&mailbox);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void require_order(void) {
  ck_assert_uint_eq(count, COUNT);
  for (unsigned i = 0; i < COUNT; i++) {
    ck_assert_uint_eq(ran[i], i);
  }
}

START_TEST(messages_run_in_order) {
  for (unsigned i = 0; i < COUNT; i++) {
    mailbox_post(&mailbox, &messages[i].message);
  }
  ck_assert(mailbox_run(&mailbox));
  require_order();
  ck_assert(!mailbox_run(&mailbox));
}
END_TEST

START_TEST(a_message_may_run_those_behind_it) {
  messages[1].message.run = run_others;
  for (unsigned i = 0; i < COUNT - 1; i++) {
    mailbox_post(&mailbox, &messages[i].message);
  }
  ck_assert(mailbox_run(&mailbox));
  require_order();
}
END_TEST

Suite *mailbox_suite(void);
Suite *mailbox_suite(void) {
  Suite *suite = suite_create("mailbox");
  TCase *group = tcase_create("order");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_add_test(group, messages_run_in_order);
  tcase_add_test(group, a_message_may_run_those_behind_it);
  suite_add_tcase(suite, group);
  return suite;
}
