/*
 * The generator's own accuracy, against a server whose delays are known.
 *
 * Bounds are from below, and so hold on a machine of any speed: what a server holds back for 100 ms cannot look faster.
 */
#include "tools/framebench/load/client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

enum { FRAME = 256, NEVER = 1 << 30 };

/* Takes frames one by one and gives them back. */
static struct server {
  int fd;
  uint64_t stall_at;   /* it holds this frame back, */
  int64_t stall_ns;    /* for so long, and takes nothing meanwhile */
  int64_t delay_ns;    /* of each frame */
  uint64_t lose_every; /* it gives one in so many no answer; 0: none */
  uint64_t close_at;   /* it closes the connection at this frame, */
  const char *saying;  /* with these words */
  bool changes;        /* it gives back other bytes */
  pthread_t thread;
  bool started; /* it is to be joined */
  uint64_t taken;
} server;

static struct load_client *client;
static struct load_figures *figures;
static struct problem problem;

static void pass(int64_t ns) {
  const struct timespec time = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
  nanosleep(&time, NULL);
}

/* Ends early once the client is gone. */
static void stall(int fd, int64_t ns) {
  struct pollfd gone = {.fd = fd};
  poll(&gone, 1, (int)(ns / NS_PER_MS));
}

static void *serve(void *context) {
  struct server *self = context;
  char frame[FRAME];
  for (; recv(self->fd, frame, FRAME, MSG_WAITALL) == FRAME; self->taken++) {
    if (self->taken == self->close_at) {
      break;
    }
    pass(self->delay_ns);
    if (self->taken == self->stall_at) {
      stall(self->fd, self->stall_ns);
    }
    if (self->changes) {
      memset(frame, 1, FRAME);
    }
    if ((self->lose_every == 0 || self->taken % self->lose_every != 1) && send(self->fd, frame, FRAME, MSG_NOSIGNAL) != FRAME) {
      break;
    }
  }
  if (self->saying) {
    send(self->fd, self->saying, strlen(self->saying), MSG_NOSIGNAL);
  }
  close(self->fd);
  return NULL;
}

static void setup(void) {
  server = (struct server){.stall_at = NEVER, .close_at = NEVER};
  figures = calloc(1, sizeof *figures);
  problem = (struct problem){0};
}

static void teardown(void) {
  client = load_client_free(client);
  free(figures);
  problem_clear(&problem);
}

static void start_server(void) {
  ck_assert_int_eq(pthread_create(&server.thread, NULL, serve, &server), 0);
  server.started = true;
}

static void await_server(void) {
  pthread_join(server.thread, NULL);
  server.started = false;
}

/* Runs it all; whether the client has figures. A server that is waited for with patience has given all its answers before
 * nothing more is expected, however late its thread is. */
static bool run_until(struct load_pace pace, int64_t length_ns, int64_t patience_ns) {
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  server.fd = pair[1];
  const struct load_form form = {.frame_bytes = FRAME};
  const struct load_wire wire = {.to = pair[0], .from = pair[0], .in = form, .out = form};
  client = load_client_new(&wire, &problem);
  ck_assert_ptr_nonnull(client);
  start_server();
  pace.start = pace.from = clock_now();
  pace.to = pace.start + length_ns;
  pace.give_up = pace.to + patience_ns;
  ck_assert(load_client_start(client, &pace, &problem));
  load_client_send_out(client, false);
  if (patience_ns > 0) {
    await_server();
  }
  load_client_finish(client);
  bool done = load_client_figures(client, figures, &problem);
  client = load_client_free(client); /* what it did not wait for, the server need not either */
  if (server.started) {
    await_server();
  }
  return done;
}

static bool run(struct load_pace pace, int64_t length_ns) { return run_until(pace, length_ns, 20 * NS_PER_S); }

/* -- by the clock --------------------------------------------------------------------------------------------------- */

START_TEST(every_frame_that_is_due_is_sent_and_answered) {
  ck_assert(run((struct load_pace){.rate = 1000}, NS_PER_S / 2));
  ck_assert_uint_eq(figures->offered, 500);
  ck_assert_uint_eq(figures->answered, 500);
  ck_assert_uint_eq(figures->sent, 500);
  ck_assert_uint_eq(server.taken, 500);
  ck_assert_uint_eq(figures->disordered, 0);
  ck_assert(!figures->by_order);
}
END_TEST

/* Of 1000 frames a second, 100 are due while the server stalls: they wait from 0 to 100 ms, and a generator that only
 * sends after an answer would see one of them. */
START_TEST(a_stall_shows_in_all_frames_that_were_due_meanwhile) {
  server.stall_at = 200;
  server.stall_ns = 100 * NS_PER_MS;
  ck_assert(run((struct load_pace){.rate = 1000}, NS_PER_S));
  ck_assert_uint_eq(figures->answered, 1000);
  ck_assert_int_ge(figures->max_ns, 100 * NS_PER_MS);
  ck_assert_double_ge(histogram_quantile(&figures->ns, 0.999), 97e3);
  ck_assert_double_ge(histogram_quantile(&figures->ns, 0.95), 48e3);
  ck_assert_double_ge(histogram_quantile(&figures->ns, 0.91), 8e3);
}
END_TEST

/* A server of 5 ms a frame falls behind at 400 a second: 400 frames take it 2 s, and the last one is 1 s late. */
START_TEST(a_server_that_is_too_slow_falls_further_and_further_behind) {
  server.delay_ns = 5 * NS_PER_MS;
  ck_assert(run((struct load_pace){.rate = 400}, NS_PER_S));
  ck_assert_uint_eq(figures->offered, 400);
  ck_assert_uint_eq(figures->answered, 400);
  ck_assert_int_ge(figures->max_ns, 995 * NS_PER_MS);
  ck_assert_double_ge(histogram_quantile(&figures->ns, 0.5), 480e3);
}
END_TEST

START_TEST(lost_frames_are_missing_and_the_others_keep_their_numbers) {
  server.lose_every = 10;
  server.delay_ns = NS_PER_MS;
  ck_assert(run((struct load_pace){.rate = 500}, NS_PER_S));
  ck_assert_uint_eq(figures->offered, 500);
  ck_assert_uint_eq(figures->answered, 450);
  ck_assert_uint_eq(figures->disordered, 0);
}
END_TEST

/* Some hundred frames fit into the connection; the rest is due all the same. */
START_TEST(what_is_never_taken_is_lost) {
  server.stall_at = 0;
  server.stall_ns = 60 * NS_PER_S;
  ck_assert(run_until((struct load_pace){.rate = 10000}, NS_PER_S / 2, 0));
  ck_assert_uint_eq(figures->offered, 5000);
  ck_assert_uint_lt(figures->sent, 5000);
  ck_assert_uint_lt(figures->answered, 5000);
}
END_TEST

START_TEST(a_rate_that_nobody_takes_comes_to_an_end) {
  server.delay_ns = NS_PER_MS / 10;
  ck_assert(run_until((struct load_pace){.rate = 1e9}, NS_PER_S / 10, NS_PER_S / 2));
  ck_assert_uint_eq(figures->offered, 100000000);
  ck_assert_uint_lt(figures->sent, 1000000);
  ck_assert_uint_eq(figures->answered, figures->sent);
}
END_TEST

/* None, where the writer had no turn before it was to give up. */
START_TEST(frames_of_a_batch_that_was_cut_short_are_answered_too) {
  server.stall_at = 100;
  server.stall_ns = NS_PER_S;
  ck_assert(run_until((struct load_pace){.rate = 1e9}, NS_PER_S / 100, NS_PER_S / 10));
  ck_assert_uint_eq(figures->sent, server.taken);
  ck_assert_uint_eq(figures->answered, server.taken);
}
END_TEST

START_TEST(frames_that_come_back_changed_are_counted_by_order) {
  server.changes = true;
  ck_assert(run((struct load_pace){.rate = 500}, NS_PER_S / 5));
  ck_assert(figures->by_order);
  ck_assert_uint_eq(figures->answered, 100);
}
END_TEST

START_TEST(only_what_is_due_in_the_given_time_counts) {
  struct load_pace pace = {.rate = 1000};
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  server.fd = pair[1];
  const struct load_form form = {.frame_bytes = FRAME};
  const struct load_wire wire = {.to = pair[0], .from = pair[0], .in = form, .out = form};
  client = load_client_new(&wire, &problem);
  start_server();
  pace.start = clock_now();
  pace.from = pace.start + 100 * NS_PER_MS;
  pace.to = pace.start + 300 * NS_PER_MS;
  pace.give_up = pace.to + 20 * NS_PER_S;
  ck_assert(load_client_start(client, &pace, &problem));
  load_client_send_out(client, false);
  await_server();
  load_client_finish(client);
  ck_assert(load_client_figures(client, figures, &problem));
  ck_assert_uint_eq(figures->sent, 300);
  ck_assert_uint_eq(figures->offered, 200);
  ck_assert_uint_eq(figures->answered, 200);
}
END_TEST

/* -- a reader whose turn comes late ----------------------------------------------------------------------------------- */

/* What happens between its look and the next thing that it does, once. */
static void (*_Atomic meanwhile)(void);

ssize_t recv(int fd, void *bytes, size_t size, int flags) {
  ssize_t count = recvfrom(fd, bytes, size, flags, NULL, NULL);
  void (*happens)(void) = count < 0 && errno == EAGAIN ? atomic_exchange(&meanwhile, NULL) : NULL;
  if (happens) {
    happens();
    errno = EAGAIN;
  }
  return count;
}

enum { LATE = 5 };
static char late[LATE][FRAME];

static void answer_late(void) {
  pass(300 * NS_PER_MS);
  send(server.fd, late, sizeof late, MSG_NOSIGNAL);
}

START_TEST(what_came_while_the_reader_had_no_turn_counts) {
  struct load_pace pace = {.rate = 1000};
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  server.fd = pair[1];
  const struct load_form form = {.frame_bytes = FRAME};
  const struct load_wire wire = {.to = pair[0], .from = pair[0], .in = form, .out = form};
  client = load_client_new(&wire, &problem);
  pace.start = pace.from = clock_now();
  pace.to = pace.start + LATE * NS_PER_MS;
  pace.give_up = pace.to + 20 * NS_PER_S;
  ck_assert(load_client_start(client, &pace, &problem));
  ck_assert_int_eq(recv(server.fd, late, sizeof late, MSG_WAITALL), sizeof late);
  load_client_send_out(client, false);
  meanwhile = answer_late;
  load_client_finish(client);
  close(server.fd);
  ck_assert(load_client_figures(client, figures, &problem));
  ck_assert_uint_eq(figures->answered, LATE);
}
END_TEST

/* -- without a clock ------------------------------------------------------------------------------------------------ */

START_TEST(one_in_flight_waits_for_each_answer) {
  server.delay_ns = 2 * NS_PER_MS;
  ck_assert(run((struct load_pace){.in_flight = 1}, NS_PER_S / 2));
  ck_assert_uint_ge(figures->answered, 1);
  ck_assert_uint_le(figures->answered, 251);
  ck_assert_uint_eq(figures->sent, figures->received);
  ck_assert_double_ge(histogram_quantile(&figures->ns, 0.001), 1.96e3);
}
END_TEST

START_TEST(spinning_gives_the_same_account) {
  server.delay_ns = 2 * NS_PER_MS;
  ck_assert(run((struct load_pace){.in_flight = 2, .spin = true}, NS_PER_S / 4));
  ck_assert_uint_ge(figures->answered, 1);
  ck_assert_uint_eq(figures->sent, figures->received);
  ck_assert_double_ge(histogram_quantile(&figures->ns, 0.001), 1.96e3);
}
END_TEST

START_TEST(as_fast_as_they_are_taken_loses_nothing) {
  ck_assert(run((struct load_pace){0}, NS_PER_S / 4));
  ck_assert_uint_ge(figures->sent, 1);
  ck_assert_uint_eq(figures->sent, figures->received);
  ck_assert_uint_eq(figures->sent, server.taken);
}
END_TEST

START_TEST(an_answer_that_never_comes_is_given_up) {
  server.lose_every = 5;
  ck_assert(run((struct load_pace){.in_flight = 1}, 4 * NS_PER_S));
  ck_assert_uint_ge(figures->sent, 3); /* the second got no answer */
  ck_assert_uint_lt(figures->received, figures->sent);
}
END_TEST

/* -- connections that end ------------------------------------------------------------------------------------------- */

START_TEST(being_turned_away_is_told_in_the_words_of_the_server) {
  server.close_at = 0;
  server.saying = "framed: cam0 has its client already\n";
  ck_assert(!run((struct load_pace){.rate = 100}, NS_PER_S));
  ck_assert_str_eq(problem.text, "cam0 has its client already");
  ck_assert_int_eq(problem.status, EXIT_STATUS_REFUSED);
}
END_TEST

START_TEST(a_connection_that_breaks_is_a_problem) {
  server.close_at = 20;
  ck_assert(!run((struct load_pace){.rate = 100}, NS_PER_S));
  ck_assert_int_eq(problem.status, EXIT_STATUS_REFUSED);
  ck_assert_ptr_nonnull(strstr(problem.text, "closed"));
}
END_TEST

Suite *load_client_suite(void);
Suite *load_client_suite(void) {
  Suite *suite = suite_create("load_client");
  TCase *cases = tcase_create("load_client");
  tcase_set_timeout(cases, 60);
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_add_test(cases, every_frame_that_is_due_is_sent_and_answered);
  tcase_add_test(cases, a_stall_shows_in_all_frames_that_were_due_meanwhile);
  tcase_add_test(cases, a_server_that_is_too_slow_falls_further_and_further_behind);
  tcase_add_test(cases, lost_frames_are_missing_and_the_others_keep_their_numbers);
  tcase_add_test(cases, what_is_never_taken_is_lost);
  tcase_add_test(cases, a_rate_that_nobody_takes_comes_to_an_end);
  tcase_add_test(cases, frames_of_a_batch_that_was_cut_short_are_answered_too);
  tcase_add_test(cases, frames_that_come_back_changed_are_counted_by_order);
  tcase_add_test(cases, only_what_is_due_in_the_given_time_counts);
  tcase_add_test(cases, what_came_while_the_reader_had_no_turn_counts);
  tcase_add_test(cases, one_in_flight_waits_for_each_answer);
  tcase_add_test(cases, spinning_gives_the_same_account);
  tcase_add_test(cases, as_fast_as_they_are_taken_loses_nothing);
  tcase_add_test(cases, an_answer_that_never_comes_is_given_up);
  tcase_add_test(cases, being_turned_away_is_told_in_the_words_of_the_server);
  tcase_add_test(cases, a_connection_that_breaks_is_a_problem);
  suite_add_tcase(suite, cases);
  return suite;
}
