/* The letterbox: where a picture is in its frame, and what is written there. */
#include <string.h>

#include "tests/unit/runner.h"
#include "tools/camera/picture.h"

static const struct {
  unsigned from_width, from_height;
  AVRational aspect;
  unsigned width, height;
  struct fit fit;
} fits[] = {
    {1920, 1080, {0, 1}, 1920, 1080, {0, 0, 1920, 1080}},
    {2560, 1440, {1, 1}, 1920, 1080, {0, 0, 1920, 1080}},
    {640, 480, {0, 1}, 1920, 1080, {240, 0, 1440, 1080}},
    {1920, 1080, {0, 1}, 640, 640, {0, 140, 640, 360}},
    {1080, 1920, {0, 1}, 640, 640, {140, 0, 360, 640}},
    {704, 576, {12, 11}, 640, 480, {0, 0, 640, 480}},      /* PAL: pixels that are wider than high */
    {704, 576, {1000000, 1}, 640, 480, {26, 0, 588, 480}}, /* an aspect that makes no sense counts as square */
    {1920, 1088, {0, 1}, 1920, 1080, {6, 0, 1906, 1080}},
    {16384, 2, {0, 1}, 640, 480, {0, 238, 640, 2}}, /* never without a row */
    {2, 16384, {0, 1}, 640, 480, {318, 0, 2, 480}},
    {1, 1, {0, 1}, 641, 481, {78, 0, 482, 481}},
    {640, 480, {0, 1}, 1, 1, {0, 0, 1, 1}},
};

START_TEST(a_picture_keeps_its_aspect) {
  struct fit fit = picture_fit(fits[_i].from_width, fits[_i].from_height, fits[_i].aspect, fits[_i].width, fits[_i].height);
  ck_assert_uint_eq(fit.x, fits[_i].fit.x);
  ck_assert_uint_eq(fit.y, fits[_i].fit.y);
  ck_assert_uint_eq(fit.width, fits[_i].fit.width);
  ck_assert_uint_eq(fit.height, fits[_i].fit.height);
}
END_TEST

START_TEST(a_picture_is_always_inside) {
  for (unsigned w = 1; w < 70; w += 3) {
    for (unsigned h = 1; h < 70; h += 3) {
      for (unsigned width = 2; width < 40; width += 2) {
        struct fit fit = picture_fit(w, h, (AVRational){0, 1}, width, 20);
        require(fit.width > 0 && fit.height > 0 && fit.x + fit.width <= width && fit.y + fit.height <= 20 && fit.x % 2 == 0 &&
                    fit.y % 2 == 0,
                "%ux%u in %ux20: %u %u %u %u", w, h, width, fit.x, fit.y, fit.width, fit.height);
      }
    }
  }
}
END_TEST

enum { GUARD = 64, MOST = 64 * 64 * 3 };

/* Frames of odd widths, too: nothing is written behind the frame. */
START_TEST(nothing_is_written_behind_a_frame) {
  static const enum AVPixelFormat formats[] = {AV_PIX_FMT_NV12, AV_PIX_FMT_RGB24, AV_PIX_FMT_GRAY8, AV_PIX_FMT_YUV420P};
  unsigned char frame[MOST + GUARD];
  AVFrame *from = av_frame_alloc();
  from->width = 50;
  from->height = 38;
  from->format = AV_PIX_FMT_YUV420P;
  ck_assert_int_eq(av_frame_get_buffer(from, 0), 0);
  for (int plane = 0; plane < 3; plane++) {
    memset(from->data[plane], plane == 0 ? 235 : 128, (size_t)from->linesize[plane] * (plane == 0 ? 38 : 19));
  }
  for (unsigned width = 2; width <= 64; width += 2) {
    struct picture picture;
    memset(frame, 7, sizeof frame);
    ck_assert(picture_open(&picture, width, 32, formats[_i]));
    ck_assert_uint_le(picture.bytes, MOST);
    ck_assert(picture_write(&picture, from, frame));
    for (size_t i = 0; i < GUARD; i++) {
      require(frame[picture.bytes + i] == 7, "byte %zu behind a frame of %u columns", i, width);
    }
    require(memchr(frame, 7, picture.bytes) == NULL, "a byte of a frame of %u columns was left out", width);
    picture_close(&picture);
  }
  av_frame_free(&from);
}
END_TEST

START_TEST(a_picture_of_no_known_format_is_refused) {
  struct picture picture;
  unsigned char frame[MOST];
  AVFrame *from = av_frame_alloc();
  from->width = from->height = 16;
  from->format = AV_PIX_FMT_CUDA;
  ck_assert(picture_open(&picture, 32, 32, AV_PIX_FMT_NV12));
  ck_assert(!picture_write(&picture, from, frame));
  picture_close(&picture);
  av_frame_free(&from);
}
END_TEST

Suite *picture_suite(void);
Suite *picture_suite(void) {
  Suite *suite = suite_create("picture");
  TCase *cases = tcase_create("picture");
  tcase_add_loop_test(cases, a_picture_keeps_its_aspect, 0, sizeof fits / sizeof fits[0]);
  tcase_add_test(cases, a_picture_is_always_inside);
  tcase_add_loop_test(cases, nothing_is_written_behind_a_frame, 0, 4);
  tcase_add_test(cases, a_picture_of_no_known_format_is_refused);
  suite_add_tcase(suite, cases);
  return suite;
}
