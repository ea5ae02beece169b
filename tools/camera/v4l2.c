/* Video4Linux with buffers that the driver shares (mmap). Every number of the driver is checked before use. */
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/camera/clock.h"
#include "tools/camera/v4l2.h"

enum { DEFAULT_WIDTH = 1280, DEFAULT_HEIGHT = 720, MOST_SIDE = 16384, MOST_FORMATS = 64 };

/* The best one first: USB 2 carries full HD only as MJPEG. */
static const struct {
  uint32_t fourcc;
  enum AVCodecID codec;
  enum AVPixelFormat pixels;
} known[] = {
    {V4L2_PIX_FMT_MJPEG, AV_CODEC_ID_MJPEG, AV_PIX_FMT_NONE},
    {V4L2_PIX_FMT_NV12, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_NV12},
    {V4L2_PIX_FMT_YUV420, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_YUV420P},
    {V4L2_PIX_FMT_YUYV, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_YUYV422},
    {V4L2_PIX_FMT_UYVY, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_UYVY422},
    {V4L2_PIX_FMT_RGB24, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_RGB24},
    {V4L2_PIX_FMT_BGR24, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_BGR24},
    {V4L2_PIX_FMT_GREY, AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_GRAY8},
    {V4L2_PIX_FMT_JPEG, AV_CODEC_ID_MJPEG, AV_PIX_FMT_NONE},
    {V4L2_PIX_FMT_H264, AV_CODEC_ID_H264, AV_PIX_FMT_NONE},
};
enum { KNOWN = sizeof known / sizeof known[0] };

static int call(const struct v4l2 *v4l2, unsigned long request, void *argument) {
  int result;
  do {
    result = ioctl(v4l2->fd, request, argument);
  } while (result < 0 && errno == EINTR);
  return result;
}

/* -- opening ------------------------------------------------------------------------------------------------------------- */

static bool open_device(struct v4l2 *v4l2, const struct address *address, struct reason *reason) {
  struct v4l2_capability about = {.device_caps = 0};
  v4l2->fd = open(address->url, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (v4l2->fd < 0) {
    return reason_set(reason, errno == EBUSY ? REASON_SESSIONS : REASON_PATH, "cannot open %s: %s%s", address->name,
                      strerror(errno), errno == EACCES ? ": add the daemon's user to the group video" : "");
  }
  bool good = call(v4l2, VIDIOC_QUERYCAP, &about) == 0;
  uint32_t can = about.capabilities & V4L2_CAP_DEVICE_CAPS ? about.device_caps : about.capabilities;
  return (good && (can & V4L2_CAP_VIDEO_CAPTURE) && (can & V4L2_CAP_STREAMING)) ||
         reason_set(reason, REASON_PATH, "%s is no device that captures video: try the next number", address->name);
}

/* The first of `known` that the device offers; KNOWN: none. */
static unsigned choose_format(const struct v4l2 *v4l2) {
  unsigned best = KNOWN;
  struct v4l2_fmtdesc format = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
  for (; format.index < MOST_FORMATS && call(v4l2, VIDIOC_ENUM_FMT, &format) == 0; format.index++) {
    for (unsigned i = 0; i < best; i++) {
      best = known[i].fourcc == format.pixelformat ? i : best;
    }
  }
  return best;
}

/* Rows must follow each other without padding, as the decoder of raw video expects them. */
static bool set_format(struct v4l2 *v4l2, const struct settings *settings, struct reason *reason) {
  const char *name = settings->address.name;
  unsigned chosen = choose_format(v4l2);
  if (chosen == KNOWN) {
    return reason_set(reason, REASON_CODEC, "%s has no format that is known here", name);
  }
  struct v4l2_format format = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
  format.fmt.pix.width = settings->width ? settings->width : DEFAULT_WIDTH;
  format.fmt.pix.height = settings->height ? settings->height : DEFAULT_HEIGHT;
  format.fmt.pix.pixelformat = known[chosen].fourcc;
  format.fmt.pix.field = V4L2_FIELD_ANY;
  if (call(v4l2, VIDIOC_S_FMT, &format) != 0) {
    return reason_set(reason, errno == EBUSY ? REASON_SESSIONS : REASON_CODEC, "%s: %s", name,
                      errno == EBUSY ? "another program uses this camera: close it" : strerror(errno));
  }
  const struct v4l2_pix_format *got = &format.fmt.pix;
  if (got->pixelformat != known[chosen].fourcc || got->width < 1 || got->height < 1 || got->width > MOST_SIDE ||
      got->height > MOST_SIDE) {
    return reason_set(reason, REASON_CODEC, "%s did not take the format that it offers", name);
  }
  v4l2->codec = avcodec_parameters_alloc();
  if (!v4l2->codec) {
    return reason_set(reason, REASON_CODEC, "no memory for %s", name);
  }
  v4l2->codec->codec_type = AVMEDIA_TYPE_VIDEO;
  v4l2->codec->codec_id = known[chosen].codec;
  v4l2->codec->format = known[chosen].pixels;
  v4l2->codec->width = (int)got->width;
  v4l2->codec->height = (int)got->height;
  return true;
}

static bool map_buffers(struct v4l2 *v4l2, struct reason *reason) {
  struct v4l2_requestbuffers request = {.count = V4L2_BUFFERS, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
  if (call(v4l2, VIDIOC_REQBUFS, &request) != 0 || request.count < 1) {
    return reason_set(reason, errno == EBUSY ? REASON_SESSIONS : REASON_CODEC, "the camera has no buffers for this program: %s",
                      errno == EBUSY ? "another one uses it" : strerror(errno));
  }
  unsigned count = request.count < V4L2_BUFFERS ? request.count : V4L2_BUFFERS;
  for (; v4l2->count < count; v4l2->count++) {
    struct v4l2_buffer buffer = {.index = v4l2->count, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
    void *data = call(v4l2, VIDIOC_QUERYBUF, &buffer) == 0
                     ? mmap(NULL, buffer.length, PROT_READ, MAP_SHARED, v4l2->fd, (off_t)buffer.m.offset)
                     : MAP_FAILED;
    if (data == MAP_FAILED) {
      return reason_set(reason, REASON_CODEC, "the camera's buffers cannot be mapped: %s", strerror(errno));
    }
    v4l2->buffers[v4l2->count].data = data;
    v4l2->buffers[v4l2->count].bytes = buffer.length;
    if (call(v4l2, VIDIOC_QBUF, &buffer) != 0) {
      v4l2->count++;
      return reason_set(reason, REASON_CODEC, "the camera takes no buffers: %s", strerror(errno));
    }
  }
  return true;
}

bool v4l2_open(struct v4l2 *v4l2, const struct settings *settings, struct reason *reason) {
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  *v4l2 = (struct v4l2){.fd = -1};
  if (!open_device(v4l2, &settings->address, reason) || !set_format(v4l2, settings, reason) || !map_buffers(v4l2, reason)) {
    return false;
  }
  return call(v4l2, VIDIOC_STREAMON, &type) == 0 ||
         reason_set(reason, REASON_SESSIONS, "the camera does not start: %s%s", strerror(errno),
                    errno == ENOSPC ? ": other cameras use this USB bus" : "");
}

void v4l2_close(struct v4l2 *v4l2) {
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  if (v4l2->count > 0) {
    (void)call(v4l2, VIDIOC_STREAMOFF, &type);
  }
  for (unsigned i = 0; i < v4l2->count; i++) {
    munmap(v4l2->buffers[i].data, v4l2->buffers[i].bytes);
  }
  if (v4l2->fd >= 0) {
    close(v4l2->fd);
  }
  avcodec_parameters_free(&v4l2->codec);
  *v4l2 = (struct v4l2){.fd = -1};
}

/* -- pictures ------------------------------------------------------------------------------------------------------------ */

static int64_t capture_time(const struct v4l2_buffer *buffer) {
  bool is_monotonic = (buffer->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
  int64_t at = (int64_t)buffer->timestamp.tv_sec * CLOCK_S + (int64_t)buffer->timestamp.tv_usec * 1000;
  int64_t age = clock_now() - at;
  return is_monotonic && age >= 0 && age < CLOCK_S ? at : 0;
}

/* The picture is copied, so that the driver has its buffer again at once. */
static int copy_picture(const struct v4l2 *v4l2, const struct v4l2_buffer *buffer, AVPacket *packet) {
  size_t bytes = buffer->bytesused;
  if ((buffer->flags & V4L2_BUF_FLAG_ERROR) != 0 || bytes == 0 || bytes > v4l2->buffers[buffer->index].bytes) {
    return 0;
  }
  int error = av_new_packet(packet, (int)bytes);
  if (error < 0) {
    return error;
  }
  memcpy(packet->data, v4l2->buffers[buffer->index].data, bytes);
  packet->flags |= AV_PKT_FLAG_KEY;
  return 1;
}

int v4l2_take(struct v4l2 *v4l2, AVPacket *packet, int64_t *captured) {
  struct v4l2_buffer buffer = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
  if (call(v4l2, VIDIOC_DQBUF, &buffer) != 0) {
    return errno == EAGAIN ? 0 : AVERROR(errno);
  }
  if (buffer.index >= v4l2->count) {
    return AVERROR(EIO);
  }
  *captured = capture_time(&buffer);
  int taken = copy_picture(v4l2, &buffer, packet);
  return call(v4l2, VIDIOC_QBUF, &buffer) == 0 ? taken : AVERROR(errno);
}
