/* Socket files: who takes which path from whom, and whose file is removed at the end. */
#include "daemon/client/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static char folder[64];
static char path[96];
static struct failure failure;

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/tmp/framed-unit-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/socket", folder);
  failure = (struct failure){0};
}

static void remove_folder(void) {
  unlink(path);
  ck_assert_int_eq(rmdir(folder), 0);
}

static struct listener *open_with(mode_t mode) {
  const struct config_socket_access access = {.mode = mode, .owner = (uid_t)-1, .group = (gid_t)-1};
  return listener_open("nobody", path, &access, &failure);
}

static int connect_to(const char *where) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", where);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static void leave_a_dead_socket(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  close(fd);
}

START_TEST(listens_with_its_mode_and_is_gone_afterwards) {
  mode_t before = umask(0077); /* which does not matter */
  struct listener *listener = open_with(0666);
  umask(before);
  ck_assert_ptr_nonnull(listener);
  struct stat status;
  ck_assert_int_eq(lstat(path, &status), 0);
  ck_assert_uint_eq(status.st_mode & 07777, 0666);
  int client = connect_to(path);
  ck_assert_int_ge(client, 0);
  close(client);
  listener_close(listener);
  ck_assert_int_ne(lstat(path, &status), 0);
}
END_TEST

START_TEST(access_can_be_changed_later) {
  struct listener *listener = open_with(0600);
  const struct config_socket_access access = {.mode = 0640, .owner = getuid(), .group = getgid()};
  ck_assert(listener_set_access(listener, &access, &failure));
  struct stat status;
  ck_assert_int_eq(lstat(path, &status), 0);
  ck_assert_uint_eq(status.st_mode & 07777, 0640);
  listener_close(listener);
}
END_TEST

START_TEST(a_dead_daemons_socket_is_taken_over) {
  leave_a_dead_socket();
  struct listener *listener = open_with(0600);
  ck_assert_ptr_nonnull(listener);
  int client = connect_to(path);
  ck_assert_int_ge(client, 0);
  close(client);
  listener_close(listener);
}
END_TEST

static int listen_there(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(listen(fd, 5), 0);
  return fd;
}

static const char *lock_name(void) {
  static char name[128];
  snprintf(name, sizeof name, "%s/.framed.lock", folder);
  return name;
}

/* As another daemon of this user does. */
static int lock_the_folder(void) {
  int fd = open(lock_name(), O_RDWR | O_CREAT, 0600);
  ck_assert_int_eq(flock(fd, LOCK_EX), 0);
  return fd;
}

static void *open_beside(void *context) {
  (void)context;
  return open_with(0600);
}

/* Both found the dead socket; the other one has the lock, and takes its time. */
START_TEST(a_daemon_that_is_taking_the_path_is_waited_for) {
  leave_a_dead_socket();
  int lock = lock_the_folder();
  pthread_t thread;
  void *listener;
  ck_assert_int_eq(pthread_create(&thread, NULL, open_beside, NULL), 0);
  usleep(100 * 1000);
  ck_assert_int_eq(unlink(path), 0);
  int other = listen_there();
  close(lock);
  pthread_join(thread, &listener);
  ck_assert_ptr_null(listener);
  ck_assert_ptr_nonnull(strstr(failure.text, "in use"));
  int client = connect_to(path); /* the other one still has it */
  ck_assert_int_ge(client, 0);
  close(client);
  close(other);
}
END_TEST

START_TEST(a_folder_that_stays_locked_is_an_error) {
  int lock = lock_the_folder();
  ck_assert_ptr_null(open_with(0600));
  ck_assert_ptr_nonnull(strstr(failure.text, "'.framed.lock' in the directory"));
  close(lock);
  struct listener *listener = open_with(0600);
  ck_assert_ptr_nonnull(listener);
  ck_assert_int_ne(access(lock_name(), F_OK), 0); /* nothing of the lock is left while the socket is there */
  listener_close(listener);
}
END_TEST

/* A user who can read the folder may lock it, and one who can write to it may put a file where the lock's is. */
START_TEST(what_other_users_lock_keeps_nobody_waiting) {
  int locked = open(folder, O_RDONLY | O_DIRECTORY);
  ck_assert_int_eq(flock(locked, LOCK_EX), 0);
  int other = open(lock_name(), O_RDWR | O_CREAT, 0600);
  ck_assert_int_eq(fchmod(other, 0666), 0);
  ck_assert_int_eq(flock(other, LOCK_EX), 0);
  struct listener *listener = open_with(0600);
  ck_assert_msg(listener != NULL, "%s", failure.text);
  listener_close(listener);
  ck_assert_int_eq(unlink(lock_name()), 0);
  ck_assert_int_eq(symlink("/dev/zero", lock_name()), 0);
  listener = open_with(0600);
  ck_assert_msg(listener != NULL, "%s", failure.text);
  listener_close(listener);
  ck_assert_int_eq(unlink(lock_name()), 0);
  close(locked);
  close(other);
}
END_TEST

START_TEST(a_live_daemons_socket_is_refused) {
  struct listener *first = open_with(0600);
  ck_assert_ptr_null(open_with(0600));
  ck_assert_int_eq(failure.status, EXIT_STATUS_CONFIG);
  ck_assert_ptr_nonnull(strstr(failure.text, path));
  ck_assert_ptr_nonnull(strstr(failure.text, "in use"));
  int client = connect_to(path); /* the first one still has it */
  ck_assert_int_ge(client, 0);
  close(client);
  listener_close(first);
}
END_TEST

START_TEST(a_socket_with_a_full_queue_is_in_use) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int busy = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(bind(busy, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(listen(busy, 0), 0);
  int client = connect_to(path); /* the only place there is */
  ck_assert_int_ge(client, 0);
  ck_assert_ptr_null(open_with(0600));
  ck_assert_ptr_nonnull(strstr(failure.text, "in use"));
  close(client);
  close(busy);
}
END_TEST

START_TEST(what_is_not_a_socket_is_left_alone) {
  FILE *file = fopen(path, "w");
  fputs("precious", file);
  fclose(file);
  ck_assert_ptr_null(open_with(0600));
  ck_assert_ptr_nonnull(strstr(failure.text, "is not a socket"));
  struct stat status;
  ck_assert_int_eq(stat(path, &status), 0);
  ck_assert_int_eq(status.st_size, 8);
}
END_TEST

START_TEST(a_link_to_a_socket_is_not_one) {
  ck_assert_int_eq(symlink("/nowhere", path), 0);
  ck_assert_ptr_null(open_with(0600));
  ck_assert_ptr_nonnull(strstr(failure.text, "is not a socket"));
}
END_TEST

/* Only root can make a link that belongs to somebody else. */
START_TEST(another_users_link_to_a_folder_is_not_followed) {
  char link[96], there[128];
  snprintf(link, sizeof link, "%s/link", folder);
  ck_assert_int_eq(symlink(".", link), 0);
  snprintf(there, sizeof there, "%s/socket", link);
  const struct config_socket_access access = {.mode = 0600, .owner = (uid_t)-1, .group = (gid_t)-1};
  struct listener *listener = listener_open("nobody", there, &access, &failure);
  ck_assert_msg(listener != NULL, "its own one is: %s", failure.text);
  listener_close(listener);
  if (lchown(link, 65534, 65534) == 0) {
    ck_assert_ptr_null(listener_open("nobody", there, &access, &failure));
    ck_assert_ptr_nonnull(strstr(failure.text, "symbolic link"));
  }
  ck_assert_int_eq(unlink(link), 0);
}
END_TEST

/* As chmod() by a path would, which follows links. */
START_TEST(the_mode_of_what_took_its_place_is_not_changed) {
  const struct config_socket_access access = {.mode = 0666, .owner = (uid_t)-1, .group = (gid_t)-1};
  char victim[96];
  struct stat status;
  struct listener *listener = open_with(0600);
  snprintf(victim, sizeof victim, "%s/victim", folder);
  close(open(victim, O_WRONLY | O_CREAT, 0600));
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(symlink(victim, path), 0);
  ck_assert(!listener_set_access(listener, &access, &failure));
  ck_assert(stat(victim, &status) == 0 && (status.st_mode & 0777) == 0600);
  listener_close(listener);
  ck_assert_int_eq(unlink(victim), 0);
}
END_TEST

START_TEST(another_ones_file_is_not_removed) {
  struct listener *first = open_with(0600);
  ck_assert_int_eq(unlink(path), 0);
  struct listener *second = open_with(0600);
  ck_assert_ptr_nonnull(second);
  listener_close(first);
  int client = connect_to(path);
  ck_assert_int_ge(client, 0);
  close(client);
  listener_close(second);
}
END_TEST

START_TEST(a_path_that_is_too_long_is_an_error_and_never_cut) {
  char too_long[200];
  memset(too_long, 'x', sizeof too_long);
  memcpy(too_long, folder, strlen(folder));
  too_long[strlen(folder)] = '/';
  too_long[108] = '\0';
  const struct config_socket_access access = {.mode = 0600, .owner = (uid_t)-1, .group = (gid_t)-1};
  ck_assert_ptr_null(listener_open("nobody", too_long, &access, &failure));
  ck_assert_ptr_nonnull(strstr(failure.text, "at most 107"));
  too_long[107] = '\0'; /* the longest there can be */
  struct listener *listener = listener_open("nobody", too_long, &access, &failure);
  ck_assert_ptr_nonnull(listener);
  ck_assert_str_eq(listener_path(listener), too_long);
  listener_close(listener);
}
END_TEST

START_TEST(a_missing_directory_is_named_with_a_remedy) {
  snprintf(path, sizeof path, "%s/missing/socket", folder);
  ck_assert_ptr_null(open_with(0600));
  ck_assert_ptr_nonnull(strstr(failure.text, path));
  ck_assert_ptr_nonnull(strstr(failure.remedy, "directory"));
}
END_TEST

/* -- TCP --------------------------------------------------------------------------------------------------------- */

static int port_of(const struct listener *listener) {
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  ck_assert_int_eq(getsockname(listener_fd(listener), (struct sockaddr *)&address, &length), 0);
  return ntohs(address.sin_port);
}

START_TEST(a_tcp_address_is_listened_on) {
  static const char *const addresses[] = {"127.0.0.1:0", "localhost:0", "[127.0.0.1]:0"};
  struct listener *listener = listener_open_tcp(addresses[_i], &failure);
  ck_assert_ptr_nonnull(listener);
  listener_close(listener);
}
END_TEST

START_TEST(a_tcp_port_in_use_is_an_error) {
  struct listener *first = listener_open_tcp("127.0.0.1:0", &failure);
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%d", port_of(first));
  ck_assert_ptr_null(listener_open_tcp(address, &failure));
  ck_assert_ptr_nonnull(strstr(failure.text, address));
  listener_close(first);
}
END_TEST

START_TEST(what_is_no_tcp_address_is_an_error) {
  static const char *const addresses[] = {"9464", ":9464", "127.0.0.1:", "example.org:80", "127.0.0.1:x", "[::1]"};
  ck_assert_ptr_null(listener_open_tcp(addresses[_i], &failure));
  ck_assert_ptr_nonnull(strstr(failure.text, addresses[_i]));
}
END_TEST

Suite *listener_suite(void);
Suite *listener_suite(void) {
  Suite *suite = suite_create("listener");
  TCase *unix_case = tcase_create("unix");
  tcase_add_checked_fixture(unix_case, make_folder, remove_folder);
  tcase_add_test(unix_case, listens_with_its_mode_and_is_gone_afterwards);
  tcase_add_test(unix_case, access_can_be_changed_later);
  tcase_add_test(unix_case, a_dead_daemons_socket_is_taken_over);
  tcase_add_test(unix_case, a_daemon_that_is_taking_the_path_is_waited_for);
  tcase_add_test(unix_case, a_folder_that_stays_locked_is_an_error);
  tcase_add_test(unix_case, what_other_users_lock_keeps_nobody_waiting);
  tcase_add_test(unix_case, a_live_daemons_socket_is_refused);
  tcase_add_test(unix_case, a_socket_with_a_full_queue_is_in_use);
  tcase_add_test(unix_case, what_is_not_a_socket_is_left_alone);
  tcase_add_test(unix_case, a_link_to_a_socket_is_not_one);
  tcase_add_test(unix_case, another_users_link_to_a_folder_is_not_followed);
  tcase_add_test(unix_case, the_mode_of_what_took_its_place_is_not_changed);
  tcase_add_test(unix_case, another_ones_file_is_not_removed);
  tcase_add_test(unix_case, a_path_that_is_too_long_is_an_error_and_never_cut);
  tcase_add_test(unix_case, a_missing_directory_is_named_with_a_remedy);
  suite_add_tcase(suite, unix_case);
  TCase *tcp_case = tcase_create("tcp");
  tcase_add_loop_test(tcp_case, a_tcp_address_is_listened_on, 0, 3);
  tcase_add_test(tcp_case, a_tcp_port_in_use_is_an_error);
  tcase_add_loop_test(tcp_case, what_is_no_tcp_address_is_an_error, 0, 6);
  suite_add_tcase(suite, tcp_case);
  return suite;
}
