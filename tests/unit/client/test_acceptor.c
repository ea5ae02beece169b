/* Taking connections: while there are descriptors, while there are none, and while nobody wants any. */
#include "daemon/client/acceptor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/client/listener.h"
#include "tests/unit/runner.h"

static const struct config_allow everybody;

static char folder[64];
static char path[96];
static uv_loop_t loop;
static struct listener *listener;
static struct acceptor *acceptor;
static int accepted;
static struct refusals refusals;
static struct peer last_peer;

static void on_accepted(void *context, int fd, const struct peer *peer) {
  (void)context;
  accepted++;
  last_peer = *peer;
  close(fd);
}

static void make(void) {
  const struct config_socket_access access = {.mode = 0600, .owner = (uid_t)-1, .group = (gid_t)-1};
  struct failure failure;
  snprintf(folder, sizeof folder, "/tmp/framed-unit-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/socket", folder);
  log_open(CONFIG_LOG_ERROR);
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  listener = listener_open("nobody", path, &access, &failure);
  ck_assert_ptr_nonnull(listener);
  const struct acceptor_setup setup = {.loop = &loop,
                                       .fd = listener_fd(listener),
                                       .allow = &everybody,
                                       .pipeline = "cam0",
                                       .role = "producer",
                                       .accepted = on_accepted,
                                       .refusals = &refusals};
  acceptor = acceptor_new(&setup, &failure);
  ck_assert_ptr_nonnull(acceptor);
}

static void clear(void) {
  ck_assert_ptr_null(acceptor_close(acceptor));
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
  listener_close(listener);
  ck_assert_int_eq(rmdir(folder), 0);
}

static int connect_client(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

START_TEST(a_client_is_handed_over_with_who_it_is) {
  int client = connect_client();
  while (accepted == 0) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  ck_assert_int_eq(last_peer.pid, getpid());
  ck_assert_uint_eq(refusals.count, 0);
  close(client);
}
END_TEST

START_TEST(while_suspended_clients_wait) {
  acceptor_suspend(acceptor);
  int client = connect_client();
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_int_eq(accepted, 0);
  acceptor_resume(acceptor);
  while (accepted == 0) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  close(client);
}
END_TEST

/* Lets the process have no descriptor more than it has. */
static struct rlimit use_up_descriptors(void) {
  struct rlimit before;
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
  int next = open("/dev/null", O_RDONLY); /* the lowest that is free */
  ck_assert_int_ge(next, 0);
  close(next);
  const struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
  return before;
}

START_TEST(without_a_descriptor_clients_are_told_and_closed) {
  int first = connect_client();
  int second = connect_client();
  struct rlimit before = use_up_descriptors();
  while (refusals.count < 2) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
  ck_assert_int_eq(accepted, 0);
  ck_assert_str_eq(refusals.last.remedy, "raise LimitNOFILE=");
  char text[64] = "";
  ck_assert_int_gt(read(first, text, sizeof text - 1), 0);
  ck_assert_ptr_nonnull(strstr(text, "no free descriptor"));
  ck_assert_int_eq(read(first, text, sizeof text), 0);
  int third = connect_client();
  while (accepted == 0) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  close(first);
  close(second);
  close(third);
}
END_TEST

/* Somebody else takes the descriptor that was just given up: then it can only wait, and must not spin. */
START_TEST(without_even_the_spare_one_it_rests) {
  int first = connect_client();
  struct rlimit before = use_up_descriptors();
  const struct rlimit less = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &less), 0); /* what the spare one leaves is over the limit now */
  uv_run(&loop, UV_RUN_ONCE);
  ck_assert_uint_eq((unsigned)accepted + refusals.count, 0);
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq((unsigned)accepted + refusals.count, 0);
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
  while (accepted == 0) { /* after its rest */
    uv_run(&loop, UV_RUN_ONCE);
  }
  ck_assert_uint_eq(refusals.count, 0);
  close(first);
}
END_TEST

Suite *acceptor_suite(void);
Suite *acceptor_suite(void) {
  Suite *suite = suite_create("acceptor");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, make, clear);
  tcase_add_test(all, a_client_is_handed_over_with_who_it_is);
  tcase_add_test(all, while_suspended_clients_wait);
  tcase_add_test(all, without_a_descriptor_clients_are_told_and_closed);
  tcase_add_test(all, without_even_the_spare_one_it_rests);
  suite_add_tcase(suite, all);
  return suite;
}
