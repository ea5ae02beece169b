/* The message of the start, checked. */
#include <jansson.h>
#include <string.h>

#include "tools/camera/clock.h"
#include "tools/camera/settings.h"

enum { VERSION = 1, MOST_SIDE = 16384, MOST_SILENCE_S = 600 };

static const struct {
  const char *name;
  enum AVPixelFormat format;
} pixels[] = {
    {"nv12", AV_PIX_FMT_NV12},  {"rgb24", AV_PIX_FMT_RGB24}, {"bgr24", AV_PIX_FMT_BGR24},
    {"gray", AV_PIX_FMT_GRAY8}, {"gray8", AV_PIX_FMT_GRAY8}, {"yuv420p", AV_PIX_FMT_YUV420P},
};

static enum AVPixelFormat find_pixels(const char *name) {
  for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++) {
    if (strcmp(name, pixels[i].name) == 0) {
      return pixels[i].format;
    }
  }
  return AV_PIX_FMT_NONE;
}

static bool check(const struct settings *settings, int version, const char *transport, double silence, struct reason *reason) {
  bool sized =
      settings->width <= MOST_SIDE && settings->height <= MOST_SIDE && (settings->width == 0) == (settings->height == 0);
  bool even = settings->pixels == AV_PIX_FMT_NV12 || settings->pixels == AV_PIX_FMT_YUV420P;
  if (version != VERSION) {
    return reason_set(reason, REASON_URL, "the message of the start has version %d, not %d", version, VERSION);
  }
  if (!sized || (even && (settings->width % 2 != 0 || settings->height % 2 != 0))) {
    return reason_set(reason, REASON_URL, "frames of %ux%u are not possible", settings->width, settings->height);
  }
  if (settings->pixels == AV_PIX_FMT_NONE) {
    return reason_set(reason, REASON_URL, "the format of the pixels is none of nv12, rgb24, bgr24, gray and yuv420p");
  }
  if (strcmp(transport, "tcp") != 0 && strcmp(transport, "udp") != 0) {
    return reason_set(reason, REASON_URL, "the transport is neither tcp nor udp");
  }
  return (silence >= 0 && silence <= MOST_SILENCE_S) ||
         reason_set(reason, REASON_URL, "the time of silence is not from 0 to %d s", MOST_SILENCE_S);
}

static bool take(struct settings *settings, json_t *message, struct reason *reason) {
  const char *url, *user = NULL, *password = NULL, *format = "nv12", *transport = "tcp";
  int version, width = 0, height = 0;
  double silence = 1;
  json_error_t error;
  if (json_unpack_ex(message, &error, 0, "{s:i, s:s, s?s, s?s, s?i, s?i, s?s, s?s, s?F}", "version", &version, "url", &url,
                     "user", &user, "password", &password, "width", &width, "height", &height, "pixels", &format, "transport",
                     &transport, "silence", &silence) != 0) {
    return reason_set(reason, REASON_URL, "the message of the start is not understood: %.100s", error.text);
  }
  settings->width = (unsigned)width;
  settings->height = (unsigned)height;
  settings->pixels = find_pixels(format);
  settings->udp = strcmp(transport, "udp") == 0;
  settings->silence = silence >= 1 ? (int64_t)(silence * (double)CLOCK_S) : CLOCK_S;
  return check(settings, version, transport, silence, reason) && address_read(&settings->address, url, user, password, reason);
}

bool settings_read(struct settings *settings, const char *text, size_t length, struct reason *reason) {
  *settings = (struct settings){.pixels = AV_PIX_FMT_NONE};
  json_t *message = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
  bool good = message ? take(settings, message, reason) : reason_set(reason, REASON_URL, "the message of the start is no JSON");
  json_decref(message);
  return good;
}

void settings_clear(struct settings *settings) { address_clear(&settings->address); }
