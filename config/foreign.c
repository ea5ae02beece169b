#include "config/foreign.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define DECODE "ffmpeg -i INPUT -pix_fmt yuv420p -f yuv4mpegpipe unix:PATH"
#define ENCODE "ffmpeg -f yuv4mpegpipe -i unix:PATH OUTPUT"

static const char *const remedies[][2] = {
    {"write url: rtsp://HOST/PATH, with credentials: NAME if the camera wants a password",
     "write socket: PATH with protocol: y4m, and let ffmpeg send the results: " ENCODE},
    {"framed takes decoded frames: write url: URL, which framed-camera decodes, or pixels: yuv420p and protocol: y4m, and let "
     "ffmpeg decode: " DECODE,
     "framed sends decoded frames: write protocol: y4m, and let ffmpeg encode: " ENCODE},
    {"write url: v4l2:/dev/video0 for a camera of this machine, or url: rtsp://HOST/PATH for one of the network",
     "write socket: PATH with protocol: y4m, and let ffmpeg send the results: " ENCODE},
};
enum { STREAM, CODEC, CAMERA };

static const struct {
  const char *word;
  unsigned char remedy;
} words[] = {
    {"url", STREAM},    {"uri", STREAM},     {"rtsp", STREAM},  {"rtmp", STREAM},   {"rtp", STREAM},   {"srt", STREAM},
    {"http", STREAM},   {"https", STREAM},   {"hls", STREAM},   {"webrtc", STREAM}, {"onvif", STREAM}, {"udp", STREAM},
    {"tcp", STREAM},    {"address", STREAM}, {"host", STREAM},  {"stream", STREAM}, {"input", STREAM}, {"output", STREAM},
    {"codec", CODEC},   {"encoding", CODEC}, {"mjpeg", CODEC},  {"mjpg", CODEC},    {"jpeg", CODEC},   {"jpg", CODEC},
    {"png", CODEC},     {"h264", CODEC},     {"h.264", CODEC},  {"x264", CODEC},    {"avc", CODEC},    {"h265", CODEC},
    {"h.265", CODEC},   {"x265", CODEC},     {"hevc", CODEC},   {"vp8", CODEC},     {"vp9", CODEC},    {"av1", CODEC},
    {"mpeg2", CODEC},   {"mpeg4", CODEC},    {"mpegts", CODEC}, {"mp4", CODEC},     {"mkv", CODEC},    {"prores", CODEC},
    {"camera", CAMERA}, {"device", CAMERA},  {"v4l2", CAMERA},  {"webcam", CAMERA}, {"usb", CAMERA},
};

bool foreign_is_url(const char *text) {
  size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
  return (scheme > 1 && strncmp(text + scheme, "://", 3) == 0) || strncmp(text, "unix:", 5) == 0;
}

const char *foreign_url_remedy(const char *text, bool is_sink) {
  return strncmp(text, "unix:", 5) == 0 ? "write socket: and the path alone, without 'unix:'" : remedies[STREAM][is_sink];
}

const char *foreign_word_remedy(const char *word, bool is_sink) {
  if (foreign_is_url(word)) {
    return foreign_url_remedy(word, is_sink);
  }
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strcasecmp(word, words[i].word) == 0) {
      return remedies[words[i].remedy][is_sink];
    }
  }
  return NULL;
}
