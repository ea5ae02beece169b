/* HTTP responses, split at every byte: well formed ones give the same body each time, others are refused. */
#include "tools/framectl/common/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

static const struct {
  const char *text, *body;
  int status;
} good[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200},
    {"HTTP/1.1 200 OK\r\ncontent-length:5  \r\nX: y\r\n\r\nhello", "hello", 200},
    {"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "hello", 200},
    {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "", 200},
    {"HTTP/1.0 404 Not Found\r\n\r\nto the end", "to the end", 404},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", 204},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "abc0123456789", 200},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nTrailer: z\r\n\r\n", "x", 200},
};

static const char *const bad[] = {
    "",
    "SSH-2.0-OpenSSH\r\n\r\n",
    "HTTP/2.0 200 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 99 OK\r\n\r\n",
    "HTTP/1.1 abc\r\n\r\n",
    "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 70000000\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    /* cut off */
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
};

static struct reply reply;

static void setup(void) { reply = (struct reply){0}; }
static void teardown(void) { reply_clear(&reply); }

static const char *body(void) { return reply.body ? reply.body : ""; }

START_TEST(good_ones_survive_every_split) {
  const char *text = good[_i].text;
  size_t length = strlen(text);
  for (size_t split = 0; split <= length; split++) {
    reply_feed(&reply, text, split);
    reply_feed(&reply, text + split, length - split);
    ck_assert_int_eq(reply_end(&reply), REPLY_DONE);
    ck_assert_str_eq(body(), good[_i].body);
    ck_assert_uint_eq(reply.length, strlen(good[_i].body));
    ck_assert_int_eq(reply.status, good[_i].status);
    reply_clear(&reply);
  }
}
END_TEST

/* A receiver that accepts so many bytes. */
struct taken {
  char bytes[64];
  size_t length, most;
};

static bool take(void *context, const char *bytes, size_t count) {
  struct taken *taken = context;
  if (taken->length + count > taken->most) {
    return false;
  }
  memcpy(taken->bytes + taken->length, bytes, count);
  taken->length += count;
  return true;
}

START_TEST(receivers_get_the_body_of_a_200) {
  struct taken taken = {.most = sizeof taken.bytes - 1};
  const char *text = good[_i].text;
  for (size_t split = 0; split <= strlen(text); split++) {
    taken.length = 0;
    reply = (struct reply){.receive = take, .context = &taken};
    reply_feed(&reply, text, split);
    reply_feed(&reply, text + split, strlen(text) - split);
    ck_assert_int_eq(reply_end(&reply), REPLY_DONE);
    taken.bytes[taken.length] = '\0';
    ck_assert_str_eq(taken.bytes, good[_i].status == 200 ? good[_i].body : "");
    ck_assert_str_eq(body(), good[_i].status == 200 ? "" : good[_i].body);
    reply_clear(&reply);
  }
}
END_TEST

START_TEST(receivers_may_end_the_transfer) {
  struct taken taken = {.most = 2};
  reply = (struct reply){.receive = take, .context = &taken};
  ck_assert_int_eq(reply_feed(&reply, good[0].text, strlen(good[0].text)), REPLY_BAD);
}
END_TEST

START_TEST(good_ones_survive_single_bytes) {
  for (const char *byte = good[_i].text; *byte; byte++) {
    reply_feed(&reply, byte, 1);
  }
  ck_assert_int_eq(reply_end(&reply), REPLY_DONE);
  ck_assert_str_eq(body(), good[_i].body);
}
END_TEST

START_TEST(bad_ones_are_refused_at_every_split) {
  const char *text = bad[_i];
  size_t length = strlen(text);
  for (size_t split = 0; split <= length; split++) {
    reply_feed(&reply, text, split);
    reply_feed(&reply, text + split, length - split);
    ck_assert_int_eq(reply_end(&reply), REPLY_BAD);
    ck_assert_ptr_nonnull(reply.problem);
    reply_clear(&reply);
  }
}
END_TEST

START_TEST(what_follows_the_end_is_ignored) {
  const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\n\r\n";
  ck_assert_int_eq(reply_feed(&reply, text, strlen(text)), REPLY_DONE);
  ck_assert_str_eq(body(), "ok");
  ck_assert_int_eq(reply.status, 200);
}
END_TEST

START_TEST(heads_are_limited) {
  char header[1024];
  const char *start = "HTTP/1.1 200 OK\r\n";
  memset(header, 'a', sizeof header);
  header[1] = ':';
  header[sizeof header - 1] = '\n';
  reply_feed(&reply, start, strlen(start));
  size_t fed = 0;
  while (reply.state != REPLY_BAD && fed < 2 * REPLY_HEAD_LIMIT) {
    reply_feed(&reply, header, sizeof header);
    fed += sizeof header;
  }
  ck_assert_uint_le(fed, REPLY_HEAD_LIMIT + sizeof header);
  ck_assert_int_eq(reply.state, REPLY_BAD);
}
END_TEST

START_TEST(lines_are_limited) {
  static char line[REPLY_LINE_LIMIT];
  memset(line, 'a', sizeof line);
  ck_assert_int_eq(reply_feed(&reply, line, sizeof line), REPLY_BAD);
}
END_TEST

START_TEST(bodies_to_the_end_are_limited) {
  const char *start = "HTTP/1.1 200 OK\r\n\r\n";
  enum { PIECE = 1 << 20 };
  char *piece = calloc(1, PIECE);
  reply_feed(&reply, start, strlen(start));
  size_t fed = 0;
  while (reply.state != REPLY_BAD && fed <= REPLY_BODY_LIMIT) {
    reply_feed(&reply, piece, PIECE);
    fed += PIECE;
  }
  ck_assert_int_eq(reply.state, REPLY_BAD);
  ck_assert_uint_le(reply.length, REPLY_BODY_LIMIT);
  free(piece);
}
END_TEST

Suite *reply_suite(void);
Suite *reply_suite(void) {
  Suite *suite = suite_create("reply");
  TCase *cases = tcase_create("reply");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_set_timeout(cases, 60);
  tcase_add_loop_test(cases, good_ones_survive_every_split, 0, sizeof good / sizeof good[0]);
  tcase_add_loop_test(cases, receivers_get_the_body_of_a_200, 0, sizeof good / sizeof good[0]);
  tcase_add_test(cases, receivers_may_end_the_transfer);
  tcase_add_loop_test(cases, good_ones_survive_single_bytes, 0, sizeof good / sizeof good[0]);
  tcase_add_loop_test(cases, bad_ones_are_refused_at_every_split, 0, sizeof bad / sizeof bad[0]);
  tcase_add_test(cases, what_follows_the_end_is_ignored);
  tcase_add_test(cases, heads_are_limited);
  tcase_add_test(cases, lines_are_limited);
  tcase_add_test(cases, bodies_to_the_end_are_limited);
  suite_add_tcase(suite, cases);
  return suite;
}
