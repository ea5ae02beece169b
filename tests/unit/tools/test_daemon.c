/* framectl's side of the status socket, against a server of one canned answer, and against none. */
#include "tools/framectl/common/daemon.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/runner.h"
#include "tools/framectl/common/http.h"

enum { CROWD = 16 };

static char path[64];
static int listener;
static struct problem problem;

static struct canned {
  const char *answer; /* NULL: close without one */
  char request[512];
  pthread_t thread;
} canned;

static void *serve(void *context) {
  struct canned *server = context;
  int fd = accept(listener, NULL, NULL);
  size_t length = 0;
  ssize_t count;
  while (!strstr(server->request, "\r\n\r\n") &&
         (count = read(fd, server->request + length, sizeof server->request - 1 - length)) > 0) {
    length += (size_t)count;
  }
  if (server->answer && write(fd, server->answer, strlen(server->answer)) < 0) {
    server->request[0] = '\0';
  }
  close(fd);
  return NULL;
}

static void setup(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(path, sizeof path, "/tmp/framectl-test-%d.sock", (int)getpid());
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  unlink(path);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(listen(listener, 4), 0);
  problem = (struct problem){0};
}

static void teardown(void) {
  problem_clear(&problem);
  close(listener);
  unlink(path);
}

static void start(const char *answer) {
  canned = (struct canned){.answer = answer};
  ck_assert_int_eq(pthread_create(&canned.thread, NULL, serve, &canned), 0);
}

static void finish(void) { pthread_join(canned.thread, NULL); }

static void expect_request(const char *start_of_it) {
  ck_assert_msg(strncmp(canned.request, start_of_it, strlen(start_of_it)) == 0, "%s", canned.request);
}

START_TEST(documents_are_asked_for) {
  start("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na_total 1");
  char *text = daemon_text(path, "/metrics", DAEMON_PATIENCE_MS, &problem);
  finish();
  ck_assert_str_eq(text, "a_total 1");
  expect_request("GET /metrics HTTP/1.1\r\nHost: framed\r\n");
  free(text);
}
END_TEST

START_TEST(status_is_parsed) {
  start("HTTP/1.1 200 OK\r\n\r\n{\"pipelines\": {\"cam0\": {}}}");
  json_t *document = daemon_status(path, 10000, &problem);
  finish();
  ck_assert_uint_eq(json_object_size(json_object_get(document, "pipelines")), 1);
  json_decref(document);
}
END_TEST

START_TEST(commands_are_posts) {
  start("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nC\r\n{\"ok\": true}\r\n0\r\n\r\n");
  json_t *answer = daemon_command(path, "rear-2.x_y", "drain", -1, &problem);
  finish();
  ck_assert(json_is_true(json_object_get(answer, "ok")));
  expect_request("POST /v1/pipelines/rear-2.x_y/drain HTTP/1.1\r\n");
  json_decref(answer);
  start("HTTP/1.1 200 OK\r\n\r\n{}");
  answer = daemon_command(path, NULL, "reload", -1, &problem);
  finish();
  expect_request("POST /v1/reload HTTP/1.1\r\n");
  json_decref(answer);
}
END_TEST

START_TEST(refusals_keep_their_remedy) {
  start("HTTP/1.1 504 Gateway Timeout\r\n\r\n{\"error\": \"3 frames wait\", \"remedy\": \"attach a reader\"}");
  ck_assert_ptr_null(daemon_command(path, "cam0", "drain", -1, &problem));
  finish();
  ck_assert_int_eq(problem.status, EXIT_STATUS_REFUSED);
  ck_assert_str_eq(problem.text, "3 frames wait");
  ck_assert_str_eq(problem.remedy, "attach a reader");
}
END_TEST

/* Escape sequences, also as UTF-8 and in names, and the end of a line. */
START_TEST(control_characters_of_a_daemon_are_escaped) {
  start("HTTP/1.1 200 OK\r\n\r\n{\"a\\u001b[2J\": [{\"b\": \"\\u009b1m\\u007fx\\n\u00e4\"}], \"n\": 0.079}");
  json_t *document = daemon_command(path, NULL, "reload", -1, &problem);
  finish();
  char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(12));
  ck_assert_str_eq(text, "{\"a\\\\x1b[2J\":[{\"b\":\"\\\\x9b1m\\\\x7fx\\\\x0a\u00e4\"}],\"n\":0.079}");
  free(text);
  json_decref(document);
  start("HTTP/1.1 200 OK\r\n\r\na: \033[2J\nb: 1\n");
  text = daemon_text(path, "/v1/config", 10000, &problem);
  finish();
  ck_assert_str_eq(text, "a: \\x1b[2J\nb: 1\n");
  free(text);
  start("HTTP/1.1 400 Bad Request\r\n\r\n{\"error\": \"\\u001b]0;x\\u0007\", \"remedy\": \"\\r\"}");
  ck_assert_ptr_null(daemon_command(path, NULL, "reload", -1, &problem));
  finish();
  ck_assert_str_eq(problem.text, "\\x1b]0;x\\x07");
  ck_assert_str_eq(problem.remedy, "\\x0d");
}
END_TEST

START_TEST(names_that_cannot_be_are_not_asked_for) {
  static const char *const names[] = {
      "", "a/b", "a b", "a\r\nb", "%41", "..?", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    ck_assert_ptr_null(daemon_command("/nowhere", names[i], "pause", -1, &problem));
    ck_assert_int_eq(problem.status, EXIT_STATUS_USAGE);
  }
}
END_TEST

static void expect_no_daemon(const char *part) {
  ck_assert_int_eq(problem.status, EXIT_STATUS_NO_DAEMON);
  ck_assert_ptr_nonnull(strstr(problem.text, part));
  ck_assert_ptr_nonnull(problem.remedy);
  problem_clear(&problem);
}

static const char *const strangers[] = {
    NULL,
    "SSH-2.0\r\n",
    "HTTP/1.1 200 OK\r\n\r\nnot json",
    "HTTP/1.1 200 OK\r\n\r\n[]",
    "HTTP/1.1 200 OK\r\n\r\n{}",
    "HTTP/1.1 500 No\r\n\r\n<html>",
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
};

START_TEST(whatever_is_not_framed_is_not_believed) {
  start(strangers[_i]);
  ck_assert_ptr_null(daemon_status(path, 10000, &problem));
  finish();
  expect_no_daemon(path);
}
END_TEST

START_TEST(nobody_there) {
  ck_assert_ptr_null(daemon_status("/nonexistent/framed.sock", 10000, &problem));
  expect_no_daemon("No such file");
  close(listener); /* a dead daemon's socket */
  ck_assert_ptr_null(daemon_status(path, 10000, &problem));
  expect_no_daemon("refused");
}
END_TEST

START_TEST(silence_ends) {
  ck_assert_ptr_null(daemon_status(path, 50, &problem)); /* connects through the backlog */
  expect_no_daemon("does not answer");
}
END_TEST

/* A daemon that stands still for long has as many waiting as there may be, and the next one waits for its turn. */
static void crowd(int fds[CROWD]) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  bool full = false;
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  for (int i = 0; i < CROWD; i++) {
    fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    full = connect(fds[i], (const struct sockaddr *)&address, sizeof address) != 0 && errno == EAGAIN;
  }
  ck_assert(full);
}

static void on_signal(int number) { (void)number; }

START_TEST(a_turn_that_does_not_come_ends) {
  int fds[CROWD];
  const struct sigaction action = {.sa_handler = on_signal};
  const struct itimerval often = {.it_interval = {.tv_usec = 5000}, .it_value = {.tv_usec = 5000}};
  const struct itimerval never = {0};
  crowd(fds);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, _i > 0 ? &often : &never, NULL); /* as of a terminal that changes its size again and again */
  ck_assert_ptr_null(daemon_status(path, 50, &problem));
  expect_no_daemon("nor does it take connections");
  ck_assert_ptr_null(daemon_command(path, "cam0", "pause", 50, &problem));
  expect_no_daemon("nor does it take connections");
  setitimer(ITIMER_REAL, &never, NULL);
  for (int i = 0; i < CROWD; i++) {
    close(fds[i]);
  }
}
END_TEST

/* As somebody who is not root and in none of its groups. */
static void connect_without_rights(const char *where) {
  bool is_root = geteuid() == 0;
  ck_assert(!is_root || (setgroups(0, NULL) == 0 && setegid(65534) == 0 && seteuid(65534) == 0));
  ck_assert_int_eq(unix_connect(where, "framed", -1, &problem), -1);
  ck_assert(!is_root || seteuid(0) == 0);
}

START_TEST(no_permission_is_said) {
  connect_without_rights("/proc/1/fd/framed.sock");
  ck_assert_str_eq(problem.remedy, "use sudo, or join the group that owns the socket");
  expect_no_daemon("no permission");
}
END_TEST

/* Only root can give a socket away. */
START_TEST(no_permission_names_a_group_that_helps) {
  static const struct {
    gid_t group;
    mode_t mode;
    bool helps;
  } sockets[] = {{1, 0660, true}, {0, 0660, false}, {1, 0600, false}};
  const struct group *group = getgrgid(sockets[_i].group);
  if (geteuid() != 0 || !group) {
    return;
  }
  char command[128];
  snprintf(command, sizeof command, "sudo adduser $USER %s,", group->gr_name);
  ck_assert(chown(path, 0, sockets[_i].group) == 0 && chmod(path, sockets[_i].mode) == 0);
  connect_without_rights(path);
  ck_assert_msg((strstr(problem.remedy, command) != NULL) == sockets[_i].helps, "%s", problem.remedy);
  ck_assert_msg((strstr(problem.remedy, "join") != NULL) == sockets[_i].helps, "%s", problem.remedy);
  expect_no_daemon("no permission");
}
END_TEST

START_TEST(long_paths_are_never_cut) {
  char long_path[200];
  memset(long_path, 'a', sizeof long_path - 1);
  long_path[sizeof long_path - 1] = '\0';
  ck_assert_int_eq(unix_connect(long_path, "framed", -1, &problem), -1);
  ck_assert_int_eq(problem.status, EXIT_STATUS_USAGE);
}
END_TEST

START_TEST(problems_may_be_built_from_themselves) {
  problem_set(&problem, EXIT_STATUS_REFUSED, "wait", "inner");
  ck_assert(!problem_set(&problem, EXIT_STATUS_INTERNAL, problem.remedy, "outer: %s", problem.text));
  ck_assert_str_eq(problem.text, "outer: inner");
  ck_assert_str_eq(problem.remedy, "wait");
  problem_set(&problem, EXIT_STATUS_INTERNAL, "", "no advice");
  ck_assert_ptr_null(problem.remedy);
}
END_TEST

Suite *daemon_suite(void);
Suite *daemon_suite(void) {
  Suite *suite = suite_create("daemon");
  TCase *cases = tcase_create("daemon");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, documents_are_asked_for);
  tcase_add_test(cases, status_is_parsed);
  tcase_add_test(cases, commands_are_posts);
  tcase_add_test(cases, refusals_keep_their_remedy);
  tcase_add_test(cases, control_characters_of_a_daemon_are_escaped);
  tcase_add_test(cases, names_that_cannot_be_are_not_asked_for);
  tcase_add_loop_test(cases, whatever_is_not_framed_is_not_believed, 0, sizeof strangers / sizeof strangers[0]);
  tcase_add_test(cases, nobody_there);
  tcase_add_test(cases, silence_ends);
  tcase_add_loop_test(cases, a_turn_that_does_not_come_ends, 0, 2);
  tcase_add_test(cases, no_permission_is_said);
  tcase_add_loop_test(cases, no_permission_names_a_group_that_helps, 0, 3);
  tcase_add_test(cases, long_paths_are_never_cut);
  tcase_add_test(cases, problems_may_be_built_from_themselves);
  suite_add_tcase(suite, cases);
  return suite;
}
