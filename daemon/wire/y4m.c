/* The header of a y4m stream. Reads parameters in any order, as ffmpeg, GStreamer and mjpegtools write them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/wire/protocol.h"

bool y4m_carries(const struct frame_format *format) {
  return format->pixels == PIXELS_GRAY || format->pixels == PIXELS_YUV420P;
}

struct header {
  uint64_t width, height; /* 0: missing */
  struct frame_rate rate;
  struct y4m_look look;
  enum pixel_format pixels;
  char colour[24]; /* as in the header */
};

/* The first entry is the default. A mixed stream has parameters for each frame, which are not passed on, so its fields count as
 * unknown. */
static const char fields[] = {'p', 't', 'b', '?'};
static const char *const sitings[] = {"420jpeg", "420mpeg2", "420paldv"};
static const char *const ranges[] = {"", " XCOLORRANGE=FULL", " XCOLORRANGE=LIMITED"};
enum { FIELDS = sizeof fields, SITINGS = sizeof sitings / sizeof sitings[0], RANGES = sizeof ranges / sizeof ranges[0] };

bool y4m_look_is_sound(const struct y4m_look *look) {
  return look->fields < FIELDS && look->siting < SITINGS && look->range < RANGES && look->says_aspect <= 1;
}

/* Colour spaces with 8-bit samples and the same planes. */
static enum pixel_format colour_format(const char *name, struct y4m_look *look) {
  look->siting = 0;
  for (unsigned i = 0; i < SITINGS; i++) {
    if (strcmp(name, sitings[i]) == 0) {
      look->siting = (uint8_t)i;
      return PIXELS_YUV420P;
    }
  }
  if (strcmp(name, "420") == 0) { /* another name of 420jpeg */
    return PIXELS_YUV420P;
  }
  return strcmp(name, "mono") == 0 ? PIXELS_GRAY : PIXELS_NONE;
}

static bool read_side(const char *text, size_t length, uint64_t *side) {
  uint64_t value = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9' || value > FORMAT_MAX_SIDE) {
      return false;
    }
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  *side = value;
  return value > 0 && value <= FORMAT_MAX_SIDE;
}

/* A number up to `end`; 0: none, invalid, or too large. */
static uint32_t read_count(const char *text, const char *end) {
  uint64_t value = 0;
  for (; text < end; text++) {
    if (*text < '0' || *text > '9' || value > UINT32_MAX / 10) {
      return 0;
    }
    value = value * 10 + (uint64_t)(*text - '0');
  }
  return value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void read_fields(char letter, struct y4m_look *look) {
  letter = letter == 'm' ? '?' : letter;
  const char *found = memchr(fields, letter, FIELDS);
  look->fields = found ? (uint8_t)(found - fields) : 0;
}

/* "16:11"; "0:0" means unknown. */
static void read_aspect(const char *text, size_t length, struct y4m_look *look) {
  const char *colon = memchr(text, ':', length), *end = text + length;
  uint32_t width = colon ? read_count(text, colon) : 0, height = colon ? read_count(colon + 1, end) : 0;
  bool is_unknown = length == 3 && memcmp(text, "0:0", 3) == 0;
  look->says_aspect = (width > 0 && height > 0) || is_unknown;
  look->sample_width = look->says_aspect ? width : 0;
  look->sample_height = look->says_aspect ? height : 0;
}

/* Other X words are comments. */
static void read_comment(const char *text, size_t length, struct y4m_look *look) {
  for (unsigned i = 1; i < RANGES; i++) {
    if (length == strlen(ranges[i] + 1) && memcmp(text, ranges[i] + 1, length) == 0) {
      look->range = (uint8_t)i;
    }
  }
}

/* "30000:1001"; "0:0" means unknown. */
static struct frame_rate read_rate(const char *text, size_t length) {
  const char *colon = memchr(text, ':', length);
  if (!colon) {
    return (struct frame_rate){0};
  }
  struct frame_rate rate = {.frames = read_count(text, colon), .seconds = read_count(colon + 1, text + length)};
  return rate.frames > 0 && rate.seconds > 0 ? rate : (struct frame_rate){0};
}

static bool read_parameter(const char *text, size_t length, struct header *header, char problem[PROTOCOL_PROBLEM]) {
  switch (text[0]) {
  case 'W':
  case 'H':
    if (!read_side(text + 1, length - 1, text[0] == 'W' ? &header->width : &header->height)) {
      snprintf(problem, PROTOCOL_PROBLEM, "y4m header: '%.*s' is not a size from 1 to %d", (int)(length < 20 ? length : 20),
               text, FORMAT_MAX_SIDE);
      return false;
    }
    return true;
  case 'C':
    if (length - 1 < sizeof header->colour) {
      memcpy(header->colour, text + 1, length - 1);
      header->colour[length - 1] = 0;
      header->pixels = colour_format(header->colour, &header->look);
    }
    if (header->pixels == PIXELS_NONE) {
      snprintf(problem, PROTOCOL_PROBLEM, "y4m header: colour space '%.*s' is not supported; send yuv420p or gray with 8 bits",
               (int)(length < 20 ? length : 20), text);
      return false;
    }
    return true;
  case 'F':
    header->rate = read_rate(text + 1, length - 1);
    return true;
  case 'I':
    read_fields(length == 2 ? text[1] : '\0', &header->look);
    return true;
  case 'A':
    read_aspect(text + 1, length - 1, &header->look);
    return true;
  case 'X':
    read_comment(text, length, &header->look);
    return true;
  default:
    return true;
  }
}

static bool check_against(const struct header *header, const struct frame_format *format, char problem[PROTOCOL_PROBLEM]) {
  if (header->width == 0 || header->height == 0) {
    snprintf(problem, PROTOCOL_PROBLEM, "y4m header: no %s", header->width == 0 ? "width (W)" : "height (H)");
    return false;
  }
  if (header->width != format->width || header->height != format->height || header->pixels != format->pixels) {
    char wanted[FORMAT_TEXT];
    snprintf(problem, PROTOCOL_PROBLEM, "the stream is %s %" PRIu64 "x%" PRIu64 ", but the pipeline's format is %s",
             pixel_format_names[header->pixels], header->width, header->height, format_describe(format, wanted));
    return false;
  }
  return true;
}

bool y4m_check_header(const char *line, size_t length, const struct frame_format *format, struct frame_rate *rate,
                      struct y4m_look *look, char problem[PROTOCOL_PROBLEM]) {
  static const char magic[] = "YUV4MPEG2";
  struct header header = {.pixels = PIXELS_YUV420P}; /* the default without a C parameter */
  size_t at = sizeof magic - 1;
  if (length < at || memcmp(line, magic, at) != 0 || (length > at && line[at] != ' ')) {
    snprintf(problem, PROTOCOL_PROBLEM, "a y4m stream must begin with 'YUV4MPEG2 ': is the producer sending raw frames?");
    return false;
  }
  while (at < length) {
    const char *space = memchr(line + at, ' ', length - at);
    size_t end = space ? (size_t)(space - line) : length;
    if (end > at && !read_parameter(line + at, end - at, &header, problem)) {
      return false;
    }
    at = end + 1;
  }
  *rate = header.rate;
  *look = header.look;
  return check_against(&header, format, problem);
}

size_t y4m_write_header(const struct frame_format *format, const struct frame_rate *rate, const struct y4m_look *look,
                        char line[Y4M_HEADER]) {
  static const struct frame_rate usual = {.frames = 25, .seconds = 1};
  const struct frame_rate *said = rate->frames > 0 ? rate : &usual;
  uint32_t width = look->says_aspect ? look->sample_width : 1, height = look->says_aspect ? look->sample_height : 1;
  int length = snprintf(line, Y4M_HEADER,
                        "YUV4MPEG2 W%" PRIu32 " H%" PRIu32 " F%" PRIu32 ":%" PRIu32 " I%c A%" PRIu32 ":%" PRIu32 " C%s%s\n",
                        format->width, format->height, said->frames, said->seconds, fields[look->fields], width, height,
                        format->pixels == PIXELS_GRAY ? "mono" : sitings[look->siting], ranges[look->range]);
  return (size_t)length;
}

static bool y4m_is_whole(double number) { return number > 0.5 && fabs(number - round(number)) < 1e-4; }

struct frame_rate y4m_rate_of(double frames_a_second) {
  double ntsc = frames_a_second * 1.001; /* 23.976, 29.97, 59.94 are 24000, 30000 and 60000 in 1001 seconds */
  if (y4m_is_whole(frames_a_second)) {
    return (struct frame_rate){.frames = (uint32_t)round(frames_a_second), .seconds = 1};
  }
  if (y4m_is_whole(ntsc)) {
    return (struct frame_rate){.frames = (uint32_t)round(ntsc) * 1000, .seconds = 1001};
  }
  return (struct frame_rate){.frames = (uint32_t)round(frames_a_second * 1000), .seconds = 1000};
}
