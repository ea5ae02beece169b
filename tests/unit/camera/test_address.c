/* URLs: what libavformat gets, and what is refused. */
#include <string.h>

#include "tests/unit/runner.h"
#include "tools/camera/reason.h"

static const struct {
  const char *url, *user, *password;
  const char *opened, *host, *port, *name;
} good[] = {
    {"rtsp://10.0.0.17/main", NULL, NULL, "rtsp://10.0.0.17/main", "10.0.0.17", "554", "10.0.0.17:554"},
    {"rtsp://cam:8554/a?b#c", NULL, NULL, "rtsp://cam:8554/a?b#c", "cam", "8554", "cam:8554"},
    {"rtsp://cam", "u", NULL, "rtsp://u:@cam", "cam", "554", "cam:554"},
    {"rtsps://cam/x", "a b", "p@:/?#%", "rtsps://a%20b:p%40%3A%2F%3F%23%25@cam/x", "cam", "322", "cam:322"},
    {"rtsp://old:word@cam/x", "u", "p", "rtsp://u:p@cam/x", "cam", "554", "cam:554"},
    {"rtsp://old:w@rd@cam/x", NULL, NULL, "rtsp://old:w@rd@cam/x", "cam", "554", "cam:554"},
    {"http://[fe80::1]:81/s", NULL, NULL, "http://[fe80::1]:81/s", "fe80::1", "81", "fe80::1:81"},
    {"https://[::1]/s", NULL, NULL, "https://[::1]/s", "::1", "443", "::1:443"},
    {"srt://cam:9000?passphrase=x", NULL, NULL, "srt://cam:9000?passphrase=x", "cam", "9000", "cam:9000"},
    {"file:/srv/a b.mp4", NULL, NULL, "file:/srv/a b.mp4", "", "", "a b.mp4"},
    {"file:///srv/a.mp4", NULL, NULL, "file:/srv/a.mp4", "", "", "a.mp4"},
    {"v4l2:/dev/video0", NULL, NULL, "/dev/video0", "", "", "video0"},
};

START_TEST(a_url_is_understood) {
  struct address address;
  struct reason reason;
  ck_assert_msg(address_read(&address, good[_i].url, good[_i].user, good[_i].password, &reason), "%s", reason.text);
  ck_assert_str_eq(address.url, good[_i].opened);
  ck_assert_str_eq(address.host, good[_i].host);
  ck_assert_str_eq(address.port, good[_i].port);
  ck_assert_str_eq(address.name, good[_i].name);
  ck_assert_int_eq(address.has_user, strchr(good[_i].opened, '@') != NULL);
  address_clear(&address);
}
END_TEST

static const char *const bad[] = {
    "",
    "rtsp",
    "rtsp:",
    "rtsp:/x",
    "rtsp://",
    "rtsp:///x",
    "rtsp://:554/x",
    "rtsp://h:/x",
    "rtsp://h:0/x",
    "rtsp://h:65536/x",
    "rtsp://h:5x4/x",
    "rtsp://[::1/x",
    "rtsp://[]/x",
    "rtsp://[::1]x/x",
    "rtsp://h/ x",
    "rtsp://h/\r\nEvil: 1",
    "srt://h",
    "file:x",
    "file:",
    "v4l2:video0",
    "concat:/etc/passwd",
    "RTSP://h/x",
    "subfile,,start,0:/x",
    "rtsp://u:p@",
    "file://",
    "http://a\x7f/",
};

START_TEST(a_url_is_refused) {
  struct address address;
  struct reason reason = {.token = REASON_NONE};
  ck_assert(!address_read(&address, bad[_i], NULL, NULL, &reason));
  ck_assert_int_eq(reason.token, REASON_URL);
  ck_assert_ptr_null(strstr(reason.text, "u:p"));
  address_clear(&address);
}
END_TEST

/* libavformat would cut it off and the camera would refuse it. */
START_TEST(credentials_that_are_too_long_are_refused) {
  struct address address;
  struct reason reason;
  char password[128];
  memset(password, 'p', sizeof password);
  password[125] = '\0';
  ck_assert(address_read(&address, "rtsp://h/x", "u", password, &reason)); /* u : 125 = 127 */
  address_clear(&address);
  password[125] = 'p';
  password[126] = '\0';
  ck_assert(!address_read(&address, "rtsp://h/x", "u", password, &reason));
  ck_assert_int_eq(reason.token, REASON_PASSWORD);
  ck_assert_ptr_null(strstr(reason.text, "pppp"));
  address_clear(&address);
}
END_TEST

Suite *address_suite(void);
Suite *address_suite(void) {
  Suite *suite = suite_create("address");
  TCase *cases = tcase_create("address");
  tcase_add_loop_test(cases, a_url_is_understood, 0, sizeof good / sizeof good[0]);
  tcase_add_loop_test(cases, a_url_is_refused, 0, sizeof bad / sizeof bad[0]);
  tcase_add_test(cases, credentials_that_are_too_long_are_refused);
  suite_add_tcase(suite, cases);
  return suite;
}
