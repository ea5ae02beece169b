/* Whom an access list lets in, and what a client is told. */
#include "daemon/client/peer.h"

#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static gid_t groups_of_camera[] = {1000, 44, 27};
static const struct peer camera = {.pid = 7, .uid = 1000, .group_count = 3, .groups = groups_of_camera};

START_TEST(an_empty_list_lets_everybody_in) {
  const struct config_allow nobody_is_named = {0};
  ck_assert(peer_allowed(&camera, &nobody_is_named));
}
END_TEST

START_TEST(a_list_lets_in_whom_it_names) {
  uid_t users[] = {5, 1000};
  gid_t groups[] = {3, 27};
  ck_assert(peer_allowed(&camera, &(struct config_allow){.users = users, .user_count = 2}));
  ck_assert(!peer_allowed(&camera, &(struct config_allow){.users = users, .user_count = 1}));
  ck_assert(peer_allowed(&camera, &(struct config_allow){.groups = groups, .group_count = 2}));
  ck_assert(!peer_allowed(&camera, &(struct config_allow){.groups = groups, .group_count = 1}));
  ck_assert(peer_allowed(&camera, &(struct config_allow){.users = users, .user_count = 1, .groups = groups, .group_count = 2}));
}
END_TEST

START_TEST(root_is_always_let_in) {
  uid_t users[] = {5};
  const struct peer root = {.uid = 0, .group_count = 1};
  ck_assert(peer_allowed(&root, &(struct config_allow){.users = users, .user_count = 1}));
}
END_TEST

START_TEST(the_kernel_says_who_it_is) {
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  struct peer peer;
  ck_assert(peer_read(pair[0], &peer));
  ck_assert_int_eq(peer.pid, getpid());
  ck_assert_uint_eq(peer.uid, geteuid());
  ck_assert_uint_eq(peer.groups[0], getegid());
  ck_assert_int_eq((int)peer.group_count - 1, getgroups(0, NULL));
  peer_clear(&peer);
  close(pair[0]);
  close(pair[1]);
  ck_assert(!peer_read(-1, &peer));
}
END_TEST

enum { MANY = 2000 }; /* groups, as a directory of a large company may have them */

/* In a process of its own: whether its last group is known of a peer in all of them. */
static bool is_known_in_all(void) {
  gid_t groups[MANY];
  for (unsigned i = 0; i < MANY; i++) {
    groups[i] = 5000 + i;
  }
  int pair[2];
  struct peer peer;
  if (setgroups(MANY, groups) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || !peer_read(pair[0], &peer)) {
    return false;
  }
  peer.uid = 1000; /* root would be let in anyway */
  bool known = peer_allowed(&peer, &(struct config_allow){.groups = &groups[MANY - 1], .group_count = 1});
  peer_clear(&peer);
  return known;
}

START_TEST(one_in_very_many_groups_is_in_all_of_them) {
  if (geteuid() != 0) { /* who may not have groups as he likes */
    return;
  }
  int status;
  pid_t child = fork();
  if (child == 0) {
    _exit(is_known_in_all() ? 0 : 1);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(it_is_told_one_line_if_it_can_take_it) {
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  peer_send_text(pair[0], "no room for %d", 2);
  char text[64] = "";
  ck_assert_int_eq(read(pair[1], text, sizeof text), 22);
  ck_assert_str_eq(text, "framed: no room for 2\n");
  while (send(pair[0], text, sizeof text, MSG_DONTWAIT) > 0) {
  }
  peer_send_text(pair[0], "lost"); /* neither waits, */
  close(pair[1]);
  peer_send_text(pair[0], "lost"); /* nor raises SIGPIPE */
  close(pair[0]);
}
END_TEST

START_TEST(a_closed_end_shows_although_bytes_are_left) {
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  ck_assert(!peer_hung_up(pair[0]));
  ck_assert_int_eq(write(pair[1], "x", 1), 1);
  ck_assert(!peer_hung_up(pair[0]));
  ck_assert_int_eq(shutdown(pair[1], SHUT_WR), 0);
  ck_assert(peer_hung_up(pair[0]));
  close(pair[1]);
  ck_assert(peer_hung_up(pair[0]));
  close(pair[0]);
}
END_TEST

Suite *peer_suite(void);
Suite *peer_suite(void) {
  Suite *suite = suite_create("peer");
  TCase *all = tcase_create("all");
  tcase_add_test(all, an_empty_list_lets_everybody_in);
  tcase_add_test(all, a_list_lets_in_whom_it_names);
  tcase_add_test(all, root_is_always_let_in);
  tcase_add_test(all, the_kernel_says_who_it_is);
  tcase_add_test(all, one_in_very_many_groups_is_in_all_of_them);
  tcase_add_test(all, it_is_told_one_line_if_it_can_take_it);
  tcase_add_test(all, a_closed_end_shows_although_bytes_are_left);
  suite_add_tcase(suite, all);
  return suite;
}
