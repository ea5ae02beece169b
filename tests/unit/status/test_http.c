/* HTTP under clients that misbehave: late answers, clients that leave, bodies, floods, drips, no free descriptor. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/status/http.h"
#include "tests/unit/runner.h"
#include "tests/unit/status/client.h"

static const char drain[] = "POST /v1/pipelines/cam0/drain HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n";
static const char status_request[] = "GET /v1/status HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n";

static void send_text(int fd, const char *text) {
  ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static int start_drain(struct site *site) {
  site->server->answer_later = true;
  unsigned pending = site->server->pending_count;
  int fd = site_connect(site);
  send_text(fd, drain);
  while (site->server->pending_count == pending) {
    site_turn(site);
  }
  return fd;
}

static void expect_status(struct site *site, int fd, const char *status) {
  char *answer = site_receive(site, fd), line[32];
  snprintf(line, sizeof line, "HTTP/1.1 %s", status);
  ck_assert_msg(strncmp(answer, line, strlen(line)) == 0, "not %s: '%s'", status, answer);
  free(answer);
}

START_TEST(late_answers_arrive) {
  struct site site;
  site_open(&site, false);
  int first = start_drain(&site), second = start_drain(&site);
  char *meanwhile = site_ask(&site, "GET", "/v1/status");
  ck_assert_ptr_nonnull(strstr(meanwhile, "200 OK"));
  free(meanwhile);
  fake_server_answer(site.server);
  expect_status(&site, first, "200");
  expect_status(&site, second, "200");
  site_close(&site);
}
END_TEST

/* Nothing else happens on the loop that could move it. */
START_TEST(a_late_answer_arrives_by_itself) {
  struct site site;
  site_open(&site, false);
  int fd = start_drain(&site);
  shutdown(fd, SHUT_WR); /* it has said all it wants to say, and still listens */
  fake_server_answer(site.server);
  expect_status(&site, fd, "200");
  site_close(&site);
}
END_TEST

START_TEST(client_leaves_before_its_answer) {
  struct site site;
  site_open(&site, false);
  close(start_drain(&site));
  fake_server_answer(site.server);
  char *next = site_ask(&site, "GET", "/v1/status");
  ck_assert_ptr_nonnull(strstr(next, "200 OK"));
  free(next);
  site_close(&site);
}
END_TEST

START_TEST(closing_answers_what_waits) {
  struct site site;
  site_open(&site, false);
  int idle = site_connect(&site), waiting = start_drain(&site), left = start_drain(&site);
  close(left);
  site_stop(&site);
  expect_status(&site, waiting, "503");
  char *nothing = site_receive(&site, idle);
  ck_assert_str_eq(nothing, "");
  free(nothing);
  fake_server_answer(site.server); /* later than the server: must only clean up */
  site_close(&site);
}
END_TEST

static const char trace_request[] = "GET /v1/trace HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n";

static int start_trace(struct site *site) {
  unsigned pending = site->server->traces_pending;
  int fd = site_connect(site);
  site->server->answer_later = true;
  send_text(fd, trace_request);
  while (site->server->traces_pending == pending) {
    site_turn(site);
  }
  return fd;
}

START_TEST(streams_come_whole_and_late) {
  struct site site;
  site_open(&site, false);
  site.server->trace_frames = 100;
  int fd = start_trace(&site);
  char *meanwhile = site_ask(&site, "GET", "/v1/status");
  ck_assert_ptr_nonnull(strstr(meanwhile, "200 OK"));
  free(meanwhile);
  fake_server_answer(site.server);
  char *answer = site_receive(&site, fd);
  ck_assert_ptr_nonnull(strstr(answer, "\"frame\":99,\"epoch\":0}}\n]\n"));
  free(answer);
  site_close(&site);
}
END_TEST

START_TEST(a_client_that_left_is_noticed) {
  struct site site;
  site_open(&site, false);
  int stays = start_trace(&site), ends = start_trace(&site), leaves = start_trace(&site);
  shutdown(ends, SHUT_WR); /* it still listens */
  close(leaves);
  ck_assert(site.server->traces[0].wanted(site.server->traces[0].context));
  ck_assert(site.server->traces[1].wanted(site.server->traces[1].context));
  ck_assert(!site.server->traces[2].wanted(site.server->traces[2].context));
  fake_server_answer(site.server);
  expect_status(&site, stays, "200");
  close(ends);
  site_close(&site);
}
END_TEST

/* The trace is longer than any buffer between here and there; others are served, and closing does not wait for it. */
START_TEST(a_stream_may_be_left_unread) {
  struct site site;
  site_open(&site, false);
  site.server->trace_frames = 30000;
  int slow = start_trace(&site), gone = start_trace(&site);
  fake_server_answer(site.server);
  char first[512];
  while (recv(gone, first, sizeof first, MSG_DONTWAIT) <= 0) {
    site_turn(&site);
  }
  close(gone);
  char *meanwhile = site_ask(&site, "GET", "/v1/status");
  ck_assert_ptr_nonnull(strstr(meanwhile, "200 OK"));
  free(meanwhile);
  site_stop(&site);
  ck_assert_int_gt(recv(slow, first, sizeof first, MSG_DONTWAIT), 0);
  close(slow);
  site_close(&site);
}
END_TEST

START_TEST(closing_drops_streams_that_come_later) {
  struct site site;
  site_open(&site, false);
  int waiting = start_trace(&site);
  site_stop(&site);
  expect_status(&site, waiting, "503");
  ck_assert(!site.server->traces[0].wanted(site.server->traces[0].context));
  fake_server_answer(site.server);
  site_close(&site);
}
END_TEST

START_TEST(waiting_commands_are_limited) {
  struct site site;
  int fds[32];
  site_open(&site, false);
  for (int i = 0; i < 32; i++) {
    fds[i] = start_drain(&site);
  }
  char *refused = site_ask(&site, "POST", "/v1/reload"), *answered = site_ask(&site, "GET", "/v1/status");
  ck_assert_ptr_nonnull(strstr(refused, "503 "));
  ck_assert_ptr_nonnull(strstr(answered, "200 OK"));
  free(refused);
  free(answered);
  fake_server_answer(site.server);
  for (int i = 0; i < 32; i++) {
    expect_status(&site, fds[i], "200");
  }
  site_close(&site);
}
END_TEST

START_TEST(bodies_are_read_and_ignored) {
  struct site site;
  site_open(&site, false);
  int fd = site_connect(&site);
  send_text(fd, "POST /v1/reload HTTP/1.1\r\nHost: framed\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
  expect_status(&site, fd, "200");
  ck_assert_uint_eq(site.server->reloads, 1);
  site_close(&site);
}
END_TEST

START_TEST(bodies_are_limited) {
  struct site site;
  site_open(&site, false);
  int fd = site_connect(&site);
  send_text(fd, "POST /v1/reload HTTP/1.1\r\nHost: framed\r\nContent-Length: 1000000\r\n\r\n");
  char piece[4096];
  memset(piece, 'x', sizeof piece);
  ssize_t sent = 0;
  for (int i = 0; i < 64 && sent >= 0; i++) {
    sent = send(fd, piece, sizeof piece, MSG_NOSIGNAL | MSG_DONTWAIT);
    uv_run(&site.server->loop, UV_RUN_NOWAIT);
  }
  char *answer = site_receive(&site, fd);
  ck_assert_ptr_null(strstr(answer, "200"));
  free(answer);
  ck_assert_uint_eq(site.server->reloads, 0);
  site_close(&site);
}
END_TEST

START_TEST(headers_are_limited) {
  struct site site;
  site_open(&site, false);
  int fd = site_connect(&site);
  send_text(fd, "GET /v1/status HTTP/1.1\r\nHost: framed\r\n");
  for (int i = 0; i < 2000; i++) {
    char header[64];
    int length = snprintf(header, sizeof header, "X-Padding-%d: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", i);
    if (send(fd, header, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      break;
    }
    uv_run(&site.server->loop, UV_RUN_NOWAIT);
  }
  char *answer = site_receive(&site, fd);
  ck_assert_ptr_null(strstr(answer, "200"));
  free(answer);
  site_close(&site);
}
END_TEST

START_TEST(requests_share_a_connection) {
  struct site site;
  site_open(&site, false);
  int fd = site_connect(&site);
  send_text(fd, "GET /v1/config HTTP/1.1\r\nHost: framed\r\n\r\nHEAD /metrics HTTP/1.1\r\nHost: framed\r\n\r\n");
  send_text(fd, status_request);
  char *answers = site_receive(&site, fd);
  int count = 0;
  for (const char *at = answers; (at = strstr(at, "HTTP/1.1 200")); at++) {
    count++;
  }
  ck_assert_int_eq(count, 3);
  free(answers);
  site_close(&site);
}
END_TEST

/* More clients than the server takes at once: those beyond wait in the backlog, and come in when others leave. */
START_TEST(a_flood_is_served_in_turn) {
  struct site site;
  enum { FLOOD = 100 };
  int fds[FLOOD];
  site_open(&site, false);
  for (int i = 0; i < FLOOD; i++) {
    fds[i] = site_connect(&site); /* silent */
    uv_run(&site.server->loop, UV_RUN_NOWAIT);
  }
  int patient = site_connect(&site);
  send_text(patient, status_request);
  for (int i = 0; i < FLOOD; i++) {
    close(fds[i]);
  }
  expect_status(&site, patient, "200");
  site_close(&site);
}
END_TEST

START_TEST(no_free_descriptor_delays_but_does_not_spin) {
  struct site site;
  site_open(&site, false);
  int fd = site_connect(&site);
  struct rlimit limit, none;
  getrlimit(RLIMIT_NOFILE, &limit);
  none = limit;
  none.rlim_cur = (rlim_t)fd + 1;
  setrlimit(RLIMIT_NOFILE, &none);
  send_text(fd, status_request);
  uint64_t turns = 0, end = uv_hrtime() + UINT64_C(1500000000);
  while (uv_hrtime() < end) {
    site_turn(&site);
    turns++;
  }
  ck_assert_uint_lt(turns, 100); /* a busy loop makes some hundred thousand */
  setrlimit(RLIMIT_NOFILE, &limit);
  expect_status(&site, fd, "200");
  site_close(&site);
}
END_TEST

/* -- with short limits, directly on status/http.h ----------------------------------------------------------------------- */

static void answer_long(void *context, struct http_request *request) {
  (void)context;
  struct http_answer answer = {.status = 200, .type = "text/plain", .length = 8 << 20};
  answer.body = calloc(1, answer.length);
  http_answer(request, &answer);
}

static struct http *open_short(struct site *site) {
  site_open(site, false);
  site_stop(site); /* only its socket and loop are wanted */
  const struct http_setup setup = {
      .loop = &site->server->loop,
      .fd = site->listener,
      .limits = {.connections = 4, .share = 2, .waiting = 1, .request_seconds = 1, .idle_seconds = 60, .answer_seconds = 1},
      .handler = answer_long};
  struct failure failure;
  return http_new(&setup, &failure);
}

static void close_short(struct site *site, struct http *http) {
  http_close(http, NULL, NULL);
  while (uv_loop_alive(&site->server->loop)) {
    site_turn(site);
  }
  site_close(site);
}

START_TEST(a_dripping_client_is_closed) {
  struct site site;
  struct http *http = open_short(&site);
  int fd = site_connect(&site);
  ssize_t sent = 1;
  while (sent > 0) { /* ends with the connection */
    sent = send(fd, "x", 1, MSG_NOSIGNAL);
    site_turn(&site);
  }
  close(fd);
  close_short(&site, http);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_closed) {
  struct site site;
  struct http *http = open_short(&site);
  int fd = site_connect(&site);
  send_text(fd, status_request);
  while (send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) { /* until the server shut the connection */
    site_turn(&site);
  }
  close(fd);
  close_short(&site, http);
}
END_TEST

Suite *http_suite(void);
Suite *http_suite(void) {
  Suite *suite = suite_create("http");
  TCase *cases = tcase_create("http");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, late_answers_arrive);
  tcase_add_test(cases, a_late_answer_arrives_by_itself);
  tcase_add_test(cases, client_leaves_before_its_answer);
  tcase_add_test(cases, closing_answers_what_waits);
  tcase_add_test(cases, streams_come_whole_and_late);
  tcase_add_test(cases, a_client_that_left_is_noticed);
  tcase_add_test(cases, a_stream_may_be_left_unread);
  tcase_add_test(cases, closing_drops_streams_that_come_later);
  tcase_add_test(cases, waiting_commands_are_limited);
  tcase_add_test(cases, bodies_are_read_and_ignored);
  tcase_add_test(cases, bodies_are_limited);
  tcase_add_test(cases, headers_are_limited);
  tcase_add_test(cases, requests_share_a_connection);
  tcase_add_test(cases, a_flood_is_served_in_turn);
  tcase_add_test(cases, no_free_descriptor_delays_but_does_not_spin);
  tcase_add_test(cases, a_dripping_client_is_closed);
  tcase_add_test(cases, a_client_that_does_not_read_is_closed);
  suite_add_tcase(suite, cases);
  return suite;
}
