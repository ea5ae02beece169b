/* What links say of themselves: what is taken, what is refused, where it is told, and when it is forgotten. */
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/status/links.h"
#include "tests/unit/runner.h"
#include "tests/unit/status/client.h"

#define GOOD                                                                                                                   \
  "{\"role\":\"sink\",\"connected\":false,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"no\\u001b server\"}"

static char *post(struct site *site, const char *pipeline, const char *body) {
  int fd = site_connect(site);
  dprintf(fd, "POST /v1/pipelines/%s/link HTTP/1.1\r\nHost: framed\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
          pipeline, strlen(body), body);
  return site_receive(site, fd);
}

static void post_and_expect(struct site *site, const char *pipeline, const char *body, const char *status, const char *part) {
  char line[64], *answer = post(site, pipeline, body);
  snprintf(line, sizeof line, "HTTP/1.1 %s", status);
  ck_assert_msg(strncmp(answer, line, strlen(line)) == 0, "not %s for %.100s: %s", status, body, answer);
  ck_assert_msg(strstr(answer, part) != NULL, "no '%s' in %s", part, answer);
  free(answer);
}

static void expect_in(struct site *site, const char *path, const char *part, bool there) {
  char *answer = site_ask(site, "GET", path);
  ck_assert_msg((strstr(answer, part) != NULL) == there, "'%s' in %s", part, answer);
  free(answer);
}

START_TEST(a_link_is_told_of) {
  struct site site;
  site_open(&site, false);
  post_and_expect(&site, "cam0", GOOD, "200", "true");
  expect_in(&site, "/metrics", "framed_link_connected{pipeline=\"cam0\",role=\"sink\"} 0\n", true);
  expect_in(&site, "/metrics", "framed_link_unacknowledged{pipeline=\"cam0\",role=\"sink\"} 3\n", true);
  expect_in(&site, "/metrics", "pipeline=\"idle\",role=", false);
  expect_in(&site, "/v1/status", "\"error\": \"no  server\"", true);
  const struct trouble *trouble = &site.server->pipelines[0].snapshot.links.states[LINK_ROLE_SINK].trouble;
  ck_assert_str_eq(trouble->text, "the broker of its link (sink) is unreachable: no  server");
  ck_assert_int_ge(clock_now() - trouble->since, 2 * NS_PER_S);
  site_close(&site);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused) {
  static const char *const wrong[] = {
      "",
      "{",
      "[]",
      "{\"role\":\"sink\"}",
      "{\"role\":\"cup\",\"connected\":true,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\"}",
      "{\"role\":\"sink\",\"connected\":1,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\"}",
      "{\"role\":\"sink\",\"connected\":true,\"since_s\":-1,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\"}",
      "{\"role\":\"sink\",\"connected\":true,\"since_s\":1e300,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\"}",
      "{\"role\":\"sink\",\"connected\":true,\"since_s\":2,\"expires_s\":61,\"unacknowledged\":3,\"error\":\"\"}",
      ("{\"role\":\"source\",\"connected\":true,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\","
       "\"queue\":{\"depth\":-1,\"unserved\":0,\"oldest_s\":0}}"),
      "{\"role\":\"sink\",\"connected\":true,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":-3,\"error\":\"\"}",
      "{\"role\":\"sink\",\"connected\":true,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\\u0000\"}",
      "{\"role\":\"sink\",\"connected\":true,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\",\"more\":1}",
      "{\"role\":\"sink\",\"connected\":true,\"warns\":1,\"since_s\":2,\"expires_s\":10,\"unacknowledged\":3,\"error\":\"\"}",
  };
  struct site site;
  site_open(&site, false);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    post_and_expect(&site, "cam0", wrong[i], "400", "\"remedy\"");
  }
  post_and_expect(&site, "cam9", GOOD, "404", "there is no such pipeline");
  char *large = malloc(HTTP_BODY + 2);
  memset(large, ' ', HTTP_BODY + 1);
  large[HTTP_BODY + 1] = '\0';
  memcpy(large, GOOD, strlen(GOOD));
  post_and_expect(&site, "cam0", large, "413", "4096 bytes");
  expect_in(&site, "/metrics", "framed_link_connected{", false);
  large[HTTP_BODY] = '\0';
  post_and_expect(&site, "cam0", large, "200", "true");
  free(large);
  site_close(&site);
}
END_TEST

START_TEST(a_read_only_address_takes_none) {
  struct site site;
  site_open(&site, true);
  post_and_expect(&site, "cam0", GOOD, "403", "read-only");
  site_close(&site);
}
END_TEST

START_TEST(a_word_holds_for_its_time) {
  struct links links = {0};
  const struct link_state lost = {.since = 1, .until = 100}, there = {.connected = true, .since = 5, .until = 200};
  links_report(&links, LINK_ROLE_SOURCE, &lost, 10);
  links_report(&links, LINK_ROLE_MQTT, &there, 10);
  ck_assert_uint_eq(links.states[LINK_ROLE_SOURCE].trouble.count, 1);
  ck_assert_str_eq(links.states[LINK_ROLE_SOURCE].trouble.text, "the broker of its link (source) is unreachable");
  ck_assert_uint_eq(links.states[LINK_ROLE_MQTT].trouble.count, 0);
  links_expire(&links, 99);
  ck_assert_int_eq(links.states[LINK_ROLE_SOURCE].until, 100);
  links_expire(&links, 100);
  ck_assert_int_eq(links.states[LINK_ROLE_SOURCE].until, 0);
  ck_assert_uint_eq(links.states[LINK_ROLE_SOURCE].trouble.count, 0);
  ck_assert_int_eq(links.states[LINK_ROLE_MQTT].until, 200);
  links_report(&links, LINK_ROLE_MQTT, &(struct link_state){.connected = true, .until = 150}, 150);
  ck_assert_int_eq(links.states[LINK_ROLE_MQTT].until, 0);
}
END_TEST

Suite *links_suite(void);
Suite *links_suite(void) {
  Suite *suite = suite_create("links");
  TCase *cases = tcase_create("links");
  tcase_add_test(cases, a_link_is_told_of);
  tcase_add_test(cases, what_makes_no_sense_is_refused);
  tcase_add_test(cases, a_read_only_address_takes_none);
  tcase_add_test(cases, a_word_holds_for_its_time);
  suite_add_tcase(suite, cases);
  return suite;
}
