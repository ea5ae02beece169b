/* A camera of this machine: the driver's calls are answered here, since few machines have a camera. */
#include <errno.h>
#include <linux/videodev2.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <libavutil/pixdesc.h>

#include "tests/unit/runner.h"
#include "tools/camera/clock.h"
#include "tools/camera/decoder.h"
#include "tools/camera/source.h"

enum { WIDTH = 64, HEIGHT = 48, BYTES = WIDTH * HEIGHT * 2, ROOM = 8192 };

/* The driver. */
static struct {
  uint32_t formats[4]; /* that it offers, and a 0 */
  int refused;         /* errno of S_FMT */
  unsigned buffers, queued, taken;
  unsigned silent_after; /* pictures; 0: never */
  unsigned gone_after;
  uint32_t bytes, index_added, flags;
  bool streaming;
} driver;

static int fail_with(int error) {
  errno = error;
  return -1;
}

static int take_buffer(struct v4l2_buffer *buffer) {
  struct timespec now;
  if (driver.gone_after > 0 && driver.taken == driver.gone_after) {
    return fail_with(ENODEV);
  }
  if (!driver.streaming || driver.queued == 0 || (driver.silent_after > 0 && driver.taken >= driver.silent_after)) {
    return fail_with(EAGAIN);
  }
  clock_gettime(CLOCK_MONOTONIC, &now);
  buffer->index = driver.taken % driver.buffers + driver.index_added;
  buffer->bytesused = driver.bytes;
  buffer->flags = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC | driver.flags;
  buffer->timestamp = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  driver.taken++;
  driver.queued--;
  return 0;
}

static int answer(unsigned long request, void *argument) {
  struct v4l2_format *format = argument;
  struct v4l2_buffer *buffer = argument;
  struct v4l2_fmtdesc *offer = argument;
  switch (request) {
  case VIDIOC_QUERYCAP:
    ((struct v4l2_capability *)argument)->capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
    return 0;
  case VIDIOC_ENUM_FMT:
    offer->pixelformat = driver.formats[offer->index];
    return offer->pixelformat ? 0 : fail_with(EINVAL);
  case VIDIOC_S_FMT:
    format->fmt.pix.width = WIDTH;
    format->fmt.pix.height = HEIGHT;
    return driver.refused ? fail_with(driver.refused) : 0;
  case VIDIOC_REQBUFS:
    driver.buffers = 3;
    ((struct v4l2_requestbuffers *)argument)->count = driver.buffers;
    return 0;
  case VIDIOC_QUERYBUF:
    buffer->length = ROOM;
    buffer->m.offset = buffer->index * ROOM;
    return 0;
  case VIDIOC_QBUF:
    driver.queued++;
    return 0;
  case VIDIOC_DQBUF:
    return take_buffer(buffer);
  case VIDIOC_STREAMON:
  case VIDIOC_STREAMOFF:
    driver.streaming = request == VIDIOC_STREAMON;
    return 0;
  default:
    return fail_with(ENOTTY);
  }
}

int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return (request >> 8 & 0xff) == 'V' ? answer(request, argument) : (int)syscall(SYS_ioctl, fd, request, argument);
}

/* -- the tests ----------------------------------------------------------------------------------------------------------- */

static char path[] = "/tmp/framed-v4l2-XXXXXX";
static struct settings settings;
static struct source source;
static struct decoder decoder;
static struct reason reason;

static void begin(void) {
  char url[64];
  memset(&driver, 0, sizeof driver);
  driver.formats[0] = V4L2_PIX_FMT_YUYV;
  driver.bytes = BYTES;
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  for (int i = 0; i < 3 * ROOM; i += 4) { /* buffers of gray level 200 */
    ck_assert_int_eq(write(fd, "\xc8\x80\xc8\x80", 4), 4);
  }
  close(fd);
  snprintf(url, sizeof url, "v4l2:%s", path);
  ck_assert(address_read(&settings.address, url, NULL, NULL, &reason));
  settings.silence = CLOCK_S;
  source.v4l2.fd = -1;
}

static void end(void) {
  source_close(&source);
  decoder_close(&decoder);
  address_clear(&settings.address);
  unlink(path);
}

static bool go(void *owner) {
  (void)owner;
  return true;
}

static bool open_camera(void) { return source_open(&source, &settings, go, NULL, &reason); }

START_TEST(pictures_come_with_the_time_of_their_capture) {
  ck_assert_msg(open_camera(), "%s", reason.text);
  for (int i = 0; i < 7; i++) {
    ck_assert_msg(source_read(&source, &reason), "%s", reason.text);
    ck_assert_int_le(clock_now() - source.arrival, CLOCK_S);
    ck_assert(decoder.context || decoder_open(&decoder, source_codec(&source), &reason));
    decoder_put(&decoder, source.packet, source.arrival);
    ck_assert(decoder_get(&decoder));
    ck_assert_int_eq(decoder.frame->width, WIDTH);
    ck_assert_int_eq(decoder.frame->format, AV_PIX_FMT_YUYV422);
    ck_assert_int_eq(decoder.frame->data[0][0], 200);
    ck_assert_int_eq(decoder.frame->pts, source.arrival);
  }
  ck_assert_uint_eq(driver.queued, 3);
}
END_TEST

static const struct {
  uint32_t formats[4];
  enum AVCodecID codec;
  enum AVPixelFormat pixels;
} choices[] = {
    {{V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_MJPEG}, AV_CODEC_ID_MJPEG, AV_PIX_FMT_NONE},
    {{V4L2_PIX_FMT_GREY, V4L2_PIX_FMT_NV12}, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_NV12},
    {{V4L2_PIX_FMT_SBGGR8, V4L2_PIX_FMT_GREY}, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_GRAY8},
};

START_TEST(the_best_format_is_taken) {
  memcpy(driver.formats, choices[_i].formats, sizeof driver.formats);
  ck_assert(open_camera());
  ck_assert_int_eq(source_codec(&source)->codec_id, choices[_i].codec);
  ck_assert_int_eq(source_codec(&source)->format, choices[_i].pixels);
}
END_TEST

START_TEST(a_device_that_refuses) {
  driver.refused = EBUSY;
  ck_assert(!open_camera());
  ck_assert_int_eq(reason.token, REASON_SESSIONS);
  source_close(&source);
  driver.refused = 0;
  driver.formats[0] = V4L2_PIX_FMT_SBGGR8;
  ck_assert(!open_camera());
  ck_assert_int_eq(reason.token, REASON_CODEC);
  source_close(&source);
  unlink(path);
  ck_assert(!open_camera());
  ck_assert_int_eq(reason.token, REASON_PATH);
}
END_TEST

/* The driver, which may be a stranger's, is not believed. */
START_TEST(numbers_that_make_no_sense_are_refused) {
  ck_assert(open_camera());
  driver.bytes = ROOM + 1;
  driver.silent_after = 1;
  AVPacket *packet = av_packet_alloc();
  int64_t captured;
  ck_assert_int_eq(v4l2_take(&source.v4l2, packet, &captured), 0);
  driver.silent_after = 0;
  driver.bytes = BYTES;
  driver.flags = V4L2_BUF_FLAG_ERROR;
  ck_assert_int_eq(v4l2_take(&source.v4l2, packet, &captured), 0);
  driver.index_added = 100;
  ck_assert_int_lt(v4l2_take(&source.v4l2, packet, &captured), 0);
  av_packet_free(&packet);
}
END_TEST

START_TEST(a_camera_that_is_unplugged) {
  driver.gone_after = 6;
  ck_assert(open_camera());
  for (int i = 0; i < 6; i++) {
    ck_assert(source_read(&source, &reason));
  }
  ck_assert(!source_read(&source, &reason));
  ck_assert_int_eq(reason.token, REASON_ENDED);
  ck_assert_ptr_nonnull(strstr(reason.text, "was unplugged"));
}
END_TEST

START_TEST(a_camera_that_falls_silent) {
  driver.silent_after = 6;
  ck_assert(open_camera());
  for (int i = 0; i < 6; i++) {
    ck_assert(source_read(&source, &reason));
  }
  int64_t before = clock_now();
  ck_assert(!source_read(&source, &reason));
  ck_assert_int_eq(reason.token, REASON_SILENT);
  ck_assert_int_ge(clock_now() - before, CLOCK_S);
}
END_TEST

Suite *v4l2_suite(void);
Suite *v4l2_suite(void) {
  Suite *suite = suite_create("v4l2");
  TCase *cases = tcase_create("v4l2");
  tcase_add_checked_fixture(cases, begin, end);
  tcase_add_test(cases, pictures_come_with_the_time_of_their_capture);
  tcase_add_loop_test(cases, the_best_format_is_taken, 0, sizeof choices / sizeof choices[0]);
  tcase_add_test(cases, a_device_that_refuses);
  tcase_add_test(cases, numbers_that_make_no_sense_are_refused);
  tcase_add_test(cases, a_camera_that_is_unplugged);
  tcase_add_test(cases, a_camera_that_falls_silent);
  suite_add_tcase(suite, cases);
  return suite;
}
