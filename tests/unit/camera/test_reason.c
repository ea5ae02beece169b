/* Each failure of a camera has its token and its sentence. */
#include <errno.h>
#include <netdb.h>
#include <string.h>

#include <libavutil/common.h> /* error.h of 4.4 needs it */
#include <libavutil/error.h>

#include "tests/unit/runner.h"
#include "tools/camera/reason.h"

static const struct {
  int error, status;
  bool opening;
  const char *token, *part; /* of the sentence */
} failures[] = {
    {AVERROR_HTTP_UNAUTHORIZED, 0, true, "camera.password", "check the credentials"},
    {AVERROR_HTTP_FORBIDDEN, 0, true, "camera.password", "check the credentials"},
    {AVERROR_INVALIDDATA, 401, true, "camera.password", "check the credentials"},
    {AVERROR_HTTP_NOT_FOUND, 0, true, "camera.path", "check the path"},
    {AVERROR_INVALIDDATA, 404, true, "camera.path", "check the path"},
    {AVERROR_HTTP_OTHER_4XX, 453, true, "camera.sessions", "answered 453"},
    {AVERROR_HTTP_SERVER_ERROR, 503, true, "camera.sessions", "it has a limit"},
    {AVERROR_HTTP_OTHER_4XX, 461, true, "camera.url", "tcp or udp"},
    {AVERROR_HTTP_OTHER_4XX, 415, true, "camera.codec", "H.264"},
    {AVERROR_HTTP_SERVER_ERROR, 500, true, "camera.refused", "answered 500"},
    {AVERROR(ECONNREFUSED), 0, true, "camera.refused", "10.0.0.17:554 refused"},
    {AVERROR(EHOSTUNREACH), 0, true, "camera.unreachable", "10.0.0.17:554 does not answer"},
    {AVERROR(ENETUNREACH), 0, true, "camera.unreachable", "does not answer"},
    {AVERROR(ETIMEDOUT), 0, true, "camera.unreachable", "does not answer"},
    {AVERROR(ETIMEDOUT), 0, false, "camera.silent", "nothing came"},
    {AVERROR_EXIT, 0, true, "camera.unreachable", "does not answer"},
    {AVERROR_EXIT, 0, false, "camera.silent", "nothing came"},
    {AVERROR_EOF, 0, false, "camera.ended", "ended the stream"},
    {AVERROR(ECONNRESET), 0, false, "camera.ended", "ended the stream"},
    {AVERROR(EIO), 0, false, "camera.ended", "Input/output error"},
    {AVERROR(EIO), 0, true, "camera.unreachable", "Input/output error"},
    {AVERROR_INVALIDDATA, 0, true, "camera.codec", "as video"},
    {AVERROR_PROTOCOL_NOT_FOUND, 0, true, "camera.url", "libavformat"},
};

static struct address address_of(const char *url, const char *user) {
  struct address address;
  struct reason reason;
  ck_assert_msg(address_read(&address, url, user, user ? "secret" : NULL, &reason), "%s", reason.text);
  return address;
}

START_TEST(a_failure_has_a_token_and_a_sentence) {
  struct address address = address_of("rtsp://10.0.0.17/main", "admin");
  struct reason reason;
  ck_assert(!reason_set_error(&reason, failures[_i].error, failures[_i].status, failures[_i].opening, &address));
  ck_assert_str_eq(reason_name(reason.token), failures[_i].token);
  ck_assert_msg(strstr(reason.text, failures[_i].part) != NULL, "%s", reason.text);
  ck_assert_ptr_null(strstr(reason.text, "secret"));
  address_clear(&address);
}
END_TEST

START_TEST(credentials_that_are_missing_are_asked_for) {
  struct address address = address_of("rtsp://10.0.0.17/main", NULL);
  struct reason reason;
  reason_set_error(&reason, AVERROR_HTTP_UNAUTHORIZED, 401, true, &address);
  ck_assert_ptr_nonnull(strstr(reason.text, "add credentials"));
  address_clear(&address);
}
END_TEST

START_TEST(a_file_is_named) {
  struct address address = address_of("file:/srv/yard.mp4", NULL);
  struct reason reason;
  reason_set_error(&reason, AVERROR(ENOENT), 0, true, &address);
  ck_assert_str_eq(reason.text, "cannot open yard.mp4: No such file or directory");
  reason_set_error(&reason, AVERROR_EOF, 0, false, &address);
  ck_assert_str_eq(reason.text, "yard.mp4 has ended");
  address_clear(&address);
}
END_TEST

START_TEST(a_name_that_is_not_found) {
  struct address address = address_of("rtsp://yard.example/main", NULL);
  struct reason reason;
  reason_set_lookup(&reason, EAI_NONAME, &address);
  ck_assert_str_eq(reason_name(reason.token), "camera.name");
  ck_assert_ptr_nonnull(strstr(reason.text, "yard.example was not found"));
  reason_set_lookup(&reason, EAI_AGAIN, &address);
  ck_assert_ptr_nonnull(strstr(reason.text, "no name server answered"));
  address_clear(&address);
}
END_TEST

Suite *reason_suite(void);
Suite *reason_suite(void) {
  Suite *suite = suite_create("reason");
  TCase *cases = tcase_create("reason");
  tcase_add_loop_test(cases, a_failure_has_a_token_and_a_sentence, 0, sizeof failures / sizeof failures[0]);
  tcase_add_test(cases, credentials_that_are_missing_are_asked_for);
  tcase_add_test(cases, a_file_is_named);
  tcase_add_test(cases, a_name_that_is_not_found);
  suite_add_tcase(suite, cases);
  return suite;
}
