/* Who may ask: which names and origins are a browser's own, and what the token's file holds. */
#include "daemon/status/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/runner.h"

#define TOKEN "0123456789abcdef"

START_TEST(hosts_are_addresses_or_names_of_this_machine) {
  static const char *const ours[] = {"127.0.0.1:9464", "10.1.2.3", "[::1]:9464", "localhost", "LOCALHOST:80",
                                     "a.localhost:80", "framed",   "box:9464",   "",          NULL};
  static const char *const others[] = {"evil.com", "evil.com:9464", "127.0.0.1.evil.com", "localhost.evil.com:80",
                                       "evil.",    "1.2.3"};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
    const struct access_headers headers = {.host = ours[i]};
    ck_assert_int_eq(access_judge(&headers, NULL), ACCESS_GRANTED);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const struct access_headers headers = {.host = others[i]};
    ck_assert_int_eq(access_judge(&headers, NULL), ACCESS_WRONG_HOST);
  }
}
END_TEST

START_TEST(origins_are_the_host_that_was_asked) {
  static const struct {
    struct access_headers headers;
    enum access access;
  } cases[] = {
      {{.host = "localhost:1", .origin = "http://localhost:1"}, ACCESS_GRANTED},
      {{.host = "localhost:1", .origin = "http://localhost:2"}, ACCESS_WRONG_ORIGIN},
      {{.host = "localhost:1", .origin = "http://evil.com"}, ACCESS_WRONG_ORIGIN},
      {{.host = "localhost:1", .origin = "null"}, ACCESS_WRONG_ORIGIN},
      {{.origin = "http://localhost"}, ACCESS_WRONG_ORIGIN},
      {{.host = "localhost", .site = "same-origin", .mode = "cors"}, ACCESS_GRANTED},
      {{.host = "localhost", .site = "none", .mode = "navigate"}, ACCESS_GRANTED},
      {{.host = "localhost", .site = "cross-site", .mode = "navigate"}, ACCESS_GRANTED},
      {{.host = "localhost", .site = "cross-site", .mode = "navigate", .commands = true}, ACCESS_WRONG_ORIGIN},
      {{.host = "localhost", .site = "Cross-Site", .mode = "no-cors"}, ACCESS_WRONG_ORIGIN},
      {{.host = "localhost", .site = "same-site", .mode = "navigate", .commands = true}, ACCESS_WRONG_ORIGIN},
      {{.host = "localhost", .site = "same-origin", .mode = "cors", .commands = true}, ACCESS_GRANTED},
      {{.host = "localhost", .site = "same-site", .mode = "cors"}, ACCESS_GRANTED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ck_assert_int_eq(access_judge(&cases[i].headers, NULL), cases[i].access);
  }
}
END_TEST

static void write_file(char path[32], const char *text) {
  snprintf(path, 32, "/tmp/framed-access-XXXXXX");
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(dprintf(fd, "%s", text), (int)strlen(text));
  close(fd);
}

START_TEST(the_token_opens_by_any_name) {
  static const struct {
    struct access_headers headers;
    enum access access;
  } cases[] = {
      {{.host = "127.0.0.1"}, ACCESS_NO_TOKEN},
      {{.host = "box.example", .authorization = "Bearer " TOKEN}, ACCESS_GRANTED},
      {{.host = "box.example", .cookie = TOKEN}, ACCESS_GRANTED},
      {{.authorization = "Bearer " TOKEN "0"}, ACCESS_NO_TOKEN},
      {{.authorization = "Bearer 0123456789abcde"}, ACCESS_NO_TOKEN},
      {{.authorization = "Basic " TOKEN}, ACCESS_NO_TOKEN},
      {{.cookie = ""}, ACCESS_NO_TOKEN},
      {{.host = "box.example", .origin = "http://evil.com", .cookie = TOKEN}, ACCESS_WRONG_ORIGIN},
  };
  char path[32];
  write_file(path, TOKEN "\n");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ck_assert_int_eq(access_judge(&cases[i].headers, path), cases[i].access);
  }
  unlink(path);
  ck_assert_int_eq(access_judge(&cases[1].headers, path), ACCESS_NO_FILE);
}
END_TEST

START_TEST(a_file_without_a_token_opens_nothing) {
  static const char *const texts[] = {"", "\n", "short\n", "0123456789 abcdef\n", "\n0123456789abcdef"};
  char path[32];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const struct access_headers headers = {.cookie = texts[i]};
    write_file(path, texts[i]);
    ck_assert_int_eq(access_judge(&headers, path), ACCESS_NO_FILE);
    unlink(path);
  }
  const struct access_headers headers = {.cookie = ""};
  ck_assert_int_eq(access_judge(&headers, "/dev/null"), ACCESS_NO_FILE);
}
END_TEST

Suite *access_suite(void);

Suite *access_suite(void) {
  Suite *suite = suite_create("access");
  TCase *cases = tcase_create("access");
  tcase_add_test(cases, hosts_are_addresses_or_names_of_this_machine);
  tcase_add_test(cases, origins_are_the_host_that_was_asked);
  tcase_add_test(cases, the_token_opens_by_any_name);
  tcase_add_test(cases, a_file_without_a_token_opens_nothing);
  suite_add_tcase(suite, cases);
  return suite;
}
