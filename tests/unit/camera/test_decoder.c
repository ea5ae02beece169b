/* When pictures fail to come, and which codecs are not decoded. */
#include <string.h>

#include <libavutil/log.h>

#include "tests/unit/runner.h"
#include "tools/camera/avlog.h"
#include "tools/camera/clock.h"
#include "tools/camera/decoder.h"
#include "tools/camera/report.h"

static const struct {
  bool has_key, decoded;
  int seconds;
  unsigned pending;
  enum reason_token token;
  bool give_up;
} waits[] = {
    {false, false, 4, 0, REASON_NONE, false},      {false, false, 6, 0, REASON_KEY_FRAME, false},
    {false, false, 31, 0, REASON_KEY_FRAME, true}, {true, false, 9, 200, REASON_NONE, false},
    {true, false, 11, 200, REASON_CODEC, false},   {true, true, 11, 200, REASON_CODEC, false},
    {true, true, 31, 200, REASON_CODEC, true},     {true, true, 600, 1, REASON_NONE, false},
};

START_TEST(pictures_that_fail_to_come_are_told) {
  AVCodecContext *context = avcodec_alloc_context3(NULL);
  struct decoder decoder = {.context = context,
                            .has_key = waits[_i].has_key,
                            .pending = waits[_i].pending,
                            .begun = CLOCK_S,
                            .decoded = waits[_i].decoded ? CLOCK_S : 0};
  struct reason reason = {.token = REASON_NONE};
  bool give_up;
  bool stuck = decoder_is_stuck(&decoder, CLOCK_S + waits[_i].seconds * CLOCK_S, &give_up, &reason);
  ck_assert_int_eq(stuck, waits[_i].token != REASON_NONE);
  ck_assert_int_eq(reason.token, waits[_i].token);
  ck_assert_int_eq(give_up, waits[_i].give_up);
  avcodec_free_context(&context);
}
END_TEST

START_TEST(a_codec_outside_the_list_is_refused) {
  AVCodecParameters *codec = avcodec_parameters_alloc();
  struct decoder decoder;
  struct reason reason;
  codec->codec_type = AVMEDIA_TYPE_VIDEO;
  codec->codec_id = AV_CODEC_ID_CINEPAK;
  ck_assert(!decoder_open(&decoder, codec, &reason));
  ck_assert_int_eq(reason.token, REASON_CODEC);
  ck_assert_ptr_nonnull(strstr(reason.text, "cinepak"));
  decoder_close(&decoder);
  avcodec_parameters_free(&codec);
}
END_TEST

/* The lines that libavformat 4.4 to 7.1 write. */
START_TEST(the_log_tells_statuses_and_losses) {
  avlog_begin();
  av_log(NULL, AV_LOG_ERROR, "method %s failed: %d%s\n", "SETUP", 453, " Not Enough Bandwidth");
  ck_assert_int_eq(avlog_take_status(), 453);
  ck_assert_int_eq(avlog_take_status(), 0);
  av_log(NULL, AV_LOG_WARNING, "HTTP error %d %s\n", 503, "Unavailable");
  ck_assert_int_eq(avlog_take_status(), 503);
  av_log(NULL, AV_LOG_WARNING, "RTP: missed %d packets\n", 3);
  av_log(NULL, AV_LOG_WARNING, "RTP: missed %d packets\n", -3);
  av_log(NULL, AV_LOG_ERROR, "rtsp://admin:%s@h/\n", "secret");
  ck_assert_uint_eq(avlog_missed(), 3);
}
END_TEST

START_TEST(a_report_says_what_is_known) {
  char text[REPORT_MOST + 1] = "";
  struct report report = {.state = REPORT_WAITING, .retry = 0.52, .reconnects = 2};
  reason_set(&report.reason, REASON_REFUSED, "refused");
  text[report_write(&report, text)] = '\0';
  ck_assert_str_eq(text,
                   "{\"state\":\"waiting\",\"frames\":0,\"dropped\":0,\"lost\":0,\"reconnects\":2,\"token\":\"camera.refused\","
                   "\"text\":\"refused\",\"retry\":0.5}");
  report = (struct report){.state = REPORT_RUNNING,
                           .codec = "h264",
                           .width = 64,
                           .height = 48,
                           .fit = {8, 0, 64, 48},
                           .rate = 24.96,
                           .bitrate = 4e6,
                           .frames = 7,
                           .has_wall = true};
  text[report_write(&report, text)] = '\0';
  ck_assert_str_eq(text,
                   "{\"state\":\"running\",\"frames\":7,\"dropped\":0,\"lost\":0,\"reconnects\":0,\"codec\":\"h264\","
                   "\"decoder\":\"cpu\",\"time\":\"rtcp\",\"width\":64,\"height\":48,\"picture\":[8,0,64,48],\"rate\":25.0,"
                   "\"bitrate\":4000000}");
}
END_TEST

Suite *decoder_suite(void);
Suite *decoder_suite(void) {
  Suite *suite = suite_create("decoder");
  TCase *cases = tcase_create("decoder");
  tcase_add_loop_test(cases, pictures_that_fail_to_come_are_told, 0, sizeof waits / sizeof waits[0]);
  tcase_add_test(cases, a_codec_outside_the_list_is_refused);
  tcase_add_test(cases, the_log_tells_statuses_and_losses);
  tcase_add_test(cases, a_report_says_what_is_known);
  suite_add_tcase(suite, cases);
  return suite;
}
