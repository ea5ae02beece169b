/* Status messages of framed-camera: which values are accepted, and which messages are garbage. */
#include <stdio.h>
#include <string.h>

#include "daemon/camera/status.h"
#include "tests/unit/runner.h"

static struct camera_view view;

static bool hears(const char *message) { return camera_hear(&view, message, strlen(message)); }

START_TEST(a_whole_message_is_taken) {
  ck_assert(
      hears("{\"state\": \"running\", \"codec\": \"hevc\", \"width\": 2560, \"height\": 1440, \"rate\": 12.5, \"bitrate\": 4e6,"
            "\"decoder\": \"cpu\", \"frames\": 9, \"lost\": 2, \"reconnects\": 3, \"time\": \"rtcp\", \"retry\": 0, \"x\": [],"
            "\"picture\": [0, 60, 1920, 960]}"));
  ck_assert(view.picture[0] == 0 && view.picture[1] == 60 && view.picture[2] == 1920 && view.picture[3] == 960);
  ck_assert(view.state == CAMERA_RUNNING && view.width == 2560 && view.height == 1440 && view.rate == 12.5);
  ck_assert(view.bitrate == 4e6 && view.frames == 9 && view.lost == 2 && view.reconnects == 3);
  ck_assert_str_eq(view.codec, "hevc");
  ck_assert_str_eq(view.decoder, "cpu");
  ck_assert_str_eq(view.time, "rtcp");
  ck_assert_str_eq(view.token, "");
  ck_assert_str_eq(view.text, "");
}
END_TEST

START_TEST(what_is_out_of_range_is_left_out) {
  ck_assert(
      hears("{\"state\": \"running\", \"width\": 1e9, \"height\": -1, \"rate\": 1e300, \"bitrate\": \"fast\", \"lost\": -5,"
            "\"frames\": 1.5, \"reconnects\": null, \"codec\": \"h264; rm\", \"decoder\": \"a\\nb\", \"time\": 7, \"picture\": "
            "[-1, 70000, \"x\"]}"));
  ck_assert(view.picture[0] == 0 && view.picture[1] == 0 && view.picture[2] == 0 && view.picture[3] == 0);
  ck_assert(view.width == 0 && view.height == 0 && view.rate == 0 && view.bitrate == 0 && view.lost == 0);
  ck_assert(view.frames == 0 && view.reconnects == 0 && !view.codec[0] && !view.decoder[0] && !view.time[0]);
}
END_TEST

START_TEST(a_text_is_cut_and_safe_to_print) {
  char message[1200], text[1001];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  snprintf(message, sizeof message,
           "{\"state\": \"waiting\", \"token\": \"camera.path\", \"text\": \"a\\n\\u001b[2J\\u202e%s\"}", text);
  ck_assert(hears(message));
  ck_assert_uint_lt(strlen(view.text), CAMERA_TEXT);
  ck_assert_int_eq(strncmp(view.text, "a\\n\\x1b[2J\\xe2\\x80\\xaexx", 22), 0);
  ck_assert_str_eq(view.token, "camera.path");
}
END_TEST

START_TEST(who_waits_has_a_reason) {
  ck_assert(hears("{\"state\": \"waiting\"}"));
  ck_assert_str_eq(view.token, "camera.ended");
  ck_assert_str_ne(view.text, "");
}
END_TEST

START_TEST(garbage_changes_nothing) {
  static const char *const garbage[] = {"",
                                        "[]",
                                        "7",
                                        "{",
                                        "{\"state\": 1}",
                                        "{\"state\": \"starting\"}",
                                        "{\"a\": 1}",
                                        "\xff\xff",
                                        "null",
                                        "{\"state\": \"running\"} {}",
                                        "{\"state\": \"running\", \"state\": \"waiting\"}"};
  ck_assert(hears("{\"state\": \"running\", \"width\": 7}"));
  for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
    ck_assert_msg(!hears(garbage[i]), "%s", garbage[i]);
    ck_assert(view.state == CAMERA_RUNNING && view.width == 7);
  }
  ck_assert(!camera_hear(&view, "{\"state\": \"running\"}\0", 21));
}
END_TEST

Suite *hear_suite(void);

Suite *hear_suite(void) {
  Suite *suite = suite_create("hear");
  TCase *cases = tcase_create("hear");
  tcase_add_test(cases, a_whole_message_is_taken);
  tcase_add_test(cases, what_is_out_of_range_is_left_out);
  tcase_add_test(cases, a_text_is_cut_and_safe_to_print);
  tcase_add_test(cases, who_waits_has_a_reason);
  tcase_add_test(cases, garbage_changes_nothing);
  suite_add_tcase(suite, cases);
  return suite;
}
