/* Relays over real descriptors: every byte arrives, ends travel on, limits hold, failures are told apart. */
#include "tools/framectl/stream/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/runner.h"

enum { MANY = 5 * 1000 * 1000 + 7 };

static void setup(void) { signal(SIGPIPE, SIG_IGN); }

static unsigned char pattern(size_t index) { return (unsigned char)(index * 31 + index / 251); }

struct stream {
  int fd;
  size_t count; /* bytes to write, or bytes read */
  size_t wrong;
  pthread_t thread;
};

static void *write_pattern(void *context) {
  struct stream *stream = context;
  unsigned char *bytes = malloc(stream->count);
  for (size_t i = 0; i < stream->count; i++) {
    bytes[i] = pattern(i);
  }
  for (size_t written = 0; written < stream->count;) {
    ssize_t count = write(stream->fd, bytes + written, stream->count - written);
    written = count > 0 ? written + (size_t)count : stream->count;
  }
  close(stream->fd);
  free(bytes);
  return NULL;
}

static void *read_pattern(void *context) {
  struct stream *stream = context;
  unsigned char bytes[10007];
  ssize_t count;
  while ((count = read(stream->fd, bytes, sizeof bytes)) > 0) {
    for (ssize_t i = 0; i < count; i++) {
      stream->wrong += bytes[i] != pattern(stream->count++);
    }
  }
  close(stream->fd);
  return NULL;
}

static void *echo(void *context) {
  int fd = *(int *)context;
  char bytes[4099];
  ssize_t count;
  while ((count = read(fd, bytes, sizeof bytes)) > 0 && send(fd, bytes, (size_t)count, 0) == count) {
  }
  close(fd);
  return NULL;
}

START_TEST(every_byte_arrives) {
  int in[2], out[2];
  ck_assert_int_eq(pipe(in) + pipe(out), 0);
  struct stream writer = {.fd = in[1], .count = MANY}, reader = {.fd = out[0]};
  pthread_create(&writer.thread, NULL, write_pattern, &writer);
  pthread_create(&reader.thread, NULL, read_pattern, &reader);
  struct relay relay = {.from = in[0], .to = out[1]};
  ck_assert(relay_run(&relay, 1));
  close(out[1]);
  pthread_join(writer.thread, NULL);
  pthread_join(reader.thread, NULL);
  ck_assert_int_eq(relay.state, RELAY_ENDED);
  ck_assert_uint_eq(relay.moved, MANY);
  ck_assert_uint_eq(reader.count, MANY);
  ck_assert_uint_eq(reader.wrong, 0);
  close(in[0]);
}
END_TEST

/* As push does with a reply pipeline: there and back over one socket, the end of input closing the way there. */
START_TEST(two_relays_share_a_socket) {
  int in[2], out[2], ends[2];
  pthread_t echoing;
  ck_assert_int_eq(pipe(in) + pipe(out) + socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  struct stream writer = {.fd = in[1], .count = MANY}, reader = {.fd = out[0]};
  pthread_create(&writer.thread, NULL, write_pattern, &writer);
  pthread_create(&reader.thread, NULL, read_pattern, &reader);
  pthread_create(&echoing, NULL, echo, &ends[1]);
  struct relay relays[] = {{.from = in[0], .to = ends[0], .shut = true}, {.from = ends[0], .to = out[1]}};
  ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  ck_assert(relay_run(relays, 2));
  close(out[1]);
  pthread_join(writer.thread, NULL);
  pthread_join(echoing, NULL);
  pthread_join(reader.thread, NULL);
  ck_assert_int_eq(relays[0].state, RELAY_ENDED);
  ck_assert_int_eq(relays[1].state, RELAY_ENDED);
  ck_assert_uint_eq(reader.count, MANY);
  ck_assert_uint_eq(reader.wrong, 0);
  close(in[0]);
  close(ends[0]);
}
END_TEST

START_TEST(a_limit_leaves_the_rest) {
  int in[2], out[2];
  char bytes[100] = "", rest[100];
  ck_assert_int_eq(pipe(in) + pipe(out), 0);
  ck_assert_int_eq(write(in[1], bytes, sizeof bytes), sizeof bytes);
  struct relay relay = {.from = in[0], .to = out[1], .limit = 60};
  ck_assert(relay_run(&relay, 1));
  ck_assert_int_eq(relay.state, RELAY_ENDED);
  ck_assert_uint_eq(relay.moved, 60);
  ck_assert_int_eq(read(in[0], rest, sizeof rest), 40);
}
END_TEST

START_TEST(a_limit_of_lines_ends_after_the_last_of_them) {
  int in[2], out[2];
  char got[16] = "";
  ck_assert_int_eq(pipe(in) + pipe(out), 0);
  ck_assert_int_eq(write(in[1], "one\n\nthree\nfo", 13), 13);
  struct relay relay = {.from = in[0], .to = out[1], .limit = 2, .by_line = true};
  ck_assert(relay_run(&relay, 1));
  ck_assert_int_eq(relay.state, RELAY_ENDED);
  ck_assert_uint_eq(relay.lines, 2);
  ck_assert_int_eq(read(out[0], got, sizeof got), 5);
  ck_assert_str_eq(got, "one\n\n");
}
END_TEST

START_TEST(nobody_reads) {
  int in[2], out[2];
  ck_assert_int_eq(pipe(in) + pipe(out), 0);
  ck_assert_int_eq(write(in[1], "x", 1), 1);
  close(out[0]);
  struct relay relay = {.from = in[0], .to = out[1]};
  ck_assert(relay_run(&relay, 1));
  ck_assert_int_eq(relay.state, RELAY_WRITE_FAILED);
  ck_assert_int_eq(relay.error, EPIPE);
}
END_TEST

START_TEST(a_bad_source_is_told) {
  int out[2];
  ck_assert_int_eq(pipe(out), 0);
  struct relay relay = {.from = out[1], .to = out[1]}; /* the wrong end: reading it fails */
  close(out[0]);
  ck_assert(relay_run(&relay, 1));
  ck_assert_int_eq(relay.state, RELAY_READ_FAILED);
  ck_assert_int_eq(relay.error, EBADF);
}
END_TEST

/* The other end says why and closes while more is being pushed: the words must not be lost. */
START_TEST(last_words_are_heard) {
  int in[2], ends[2];
  ck_assert_int_eq(pipe(in) + socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ck_assert_int_eq(write(in[1], "frames", 6), 6);
  ck_assert_int_eq(write(ends[1], "framed: no\n", 11), 11);
  close(ends[1]);
  struct relay relays[] = {{.from = in[0], .to = ends[0], .shut = true}, {.from = ends[0], .to = -1}};
  ck_assert(relay_run(relays, 2));
  relay_read_rest(&relays[1]);
  ck_assert_int_ne(relays[0].state, RELAY_ENDED);
  ck_assert_str_eq(relays[1].first, "framed: no\n");
}
END_TEST

START_TEST(only_the_first_bytes_are_kept) {
  int in[2];
  ck_assert_int_eq(pipe(in), 0);
  struct stream writer = {.fd = in[1], .count = 100000};
  pthread_create(&writer.thread, NULL, write_pattern, &writer);
  struct relay relay = {.from = in[0], .to = -1};
  ck_assert(relay_run(&relay, 1));
  pthread_join(writer.thread, NULL);
  unsigned wrong = 0;
  for (size_t i = 0; i < RELAY_FIRST; i++) {
    wrong += (unsigned char)relay.first[i] != pattern(i);
  }
  ck_assert_uint_eq(wrong, 0);
  ck_assert_int_eq(relay.first[RELAY_FIRST], 0);
}
END_TEST

Suite *relay_suite(void);
Suite *relay_suite(void) {
  Suite *suite = suite_create("relay");
  TCase *cases = tcase_create("relay");
  tcase_add_checked_fixture(cases, setup, NULL);
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, every_byte_arrives);
  tcase_add_test(cases, two_relays_share_a_socket);
  tcase_add_test(cases, a_limit_leaves_the_rest);
  tcase_add_test(cases, a_limit_of_lines_ends_after_the_last_of_them);
  tcase_add_test(cases, nobody_reads);
  tcase_add_test(cases, a_bad_source_is_told);
  tcase_add_test(cases, last_words_are_heard);
  tcase_add_test(cases, only_the_first_bytes_are_kept);
  suite_add_tcase(suite, cases);
  return suite;
}
