#include "daemon/wire/protocol.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "daemon/wire/native.h"

static const char frame_word[] = "FRAME", y4m_word[] = "YUV4MPEG2 ", native_word[] = "FRMD", http_word[] = "GET /";
enum { FRAME_WORD = sizeof frame_word - 1 };

const char *const stranger_names[STRANGER_COUNT] = {
    [STRANGER_Y4M] = "a y4m stream", [STRANGER_NATIVE] = "framed's native protocol", [STRANGER_HTTP] = "HTTP"};

enum stranger protocol_recognise(const void *bytes, size_t count) {
  static const char *const words[STRANGER_COUNT] = {
      [STRANGER_Y4M] = y4m_word, [STRANGER_NATIVE] = native_word, [STRANGER_HTTP] = http_word};
  for (enum stranger stranger = STRANGER_UNKNOWN + 1; stranger < STRANGER_COUNT; stranger++) {
    size_t length = strlen(words[stranger]);
    if (count >= length && memcmp(bytes, words[stranger], length) == 0) {
      return stranger;
    }
  }
  return STRANGER_UNKNOWN;
}

static enum framing_state state_between_frames(enum config_protocol protocol) {
  return protocol == CONFIG_PROTOCOL_RAW ? FRAMING_PAYLOAD : FRAMING_FRAME;
}

void framing_start(struct framing *framing, enum config_protocol protocol, const struct frame_format *format) {
  framing->protocol = protocol;
  framing->format = *format;
  framing->rate = (struct frame_rate){0};
  framing->look = (struct y4m_look){0};
  framing->stamp = (struct frame_stamp){0};
  framing->payload = 0;
  format_bytes(format, &framing->payload);
  framing->state = protocol == CONFIG_PROTOCOL_Y4M ? FRAMING_HEADER : state_between_frames(protocol);
  framing->length = 0;
}

void framing_next(struct framing *framing) {
  framing->state = state_between_frames(framing->protocol);
  framing->length = 0;
}

bool framing_at_boundary(const struct framing *framing) { return framing->state != FRAMING_HEADER && framing->length == 0; }

size_t framing_shortest(const struct framing *framing) {
  size_t native = framing->protocol == CONFIG_PROTOCOL_NATIVE ? NATIVE_FRAME_BYTES : 0;
  return framing->protocol == CONFIG_PROTOCOL_Y4M ? FRAME_WORD + 1 : native;
}

/* The line of a frame is FRAME, perhaps with parameters about interlacing, which are ignored. */
static bool check_frame_line(const struct framing *framing, char problem[PROTOCOL_PROBLEM]) {
  if (framing->length >= FRAME_WORD && memcmp(framing->line, frame_word, FRAME_WORD) == 0 &&
      (framing->length == FRAME_WORD || framing->line[FRAME_WORD] == ' ')) {
    return true;
  }
  snprintf(problem, PROTOCOL_PROBLEM, "the line before a frame must begin with FRAME: is the frame size right?");
  return false;
}

static bool end_line(struct framing *framing, char problem[PROTOCOL_PROBLEM]) {
  if (framing->state == FRAMING_HEADER) {
    if (!y4m_check_header(framing->line, framing->length, &framing->format, &framing->rate, &framing->look, problem)) {
      return false;
    }
    framing->state = FRAMING_FRAME;
  } else {
    if (!check_frame_line(framing, problem)) {
      return false;
    }
    framing->state = FRAMING_PAYLOAD;
  }
  framing->length = 0;
  return true;
}

/* True if the line so far is a prefix of the word, or the word a prefix of the line. */
static bool may_be(const struct framing *framing, const char *word) {
  size_t length = strlen(word);
  return memcmp(framing->line, word, framing->length < length ? framing->length : length) == 0;
}

/* Reads on until it is clear which other protocol this is, for the error message. */
static bool check_header_begin(const struct framing *framing, char problem[PROTOCOL_PROBLEM]) {
  enum stranger other = protocol_recognise(framing->line, framing->length);
  bool undecided = !other && (may_be(framing, native_word) || may_be(framing, http_word));
  if (may_be(framing, y4m_word) || undecided) {
    return true;
  }
  if (other) {
    snprintf(problem, PROTOCOL_PROBLEM, "a y4m stream is expected here, and this is %s", stranger_names[other]);
  } else {
    snprintf(problem, PROTOCOL_PROBLEM, "a y4m stream must begin with 'YUV4MPEG2 ': is the producer sending raw frames?");
  }
  return false;
}

/* Rejects wrong input at the first byte that differs, not after a whole line. */
static bool add_byte(struct framing *framing, char byte, char problem[PROTOCOL_PROBLEM]) {
  if (framing->length == PROTOCOL_LINE) {
    snprintf(problem, PROTOCOL_PROBLEM, "a y4m %s is longer than %d bytes",
             framing->state == FRAMING_HEADER ? "header" : "FRAME line", PROTOCOL_LINE);
    return false;
  }
  framing->line[framing->length++] = byte;
  if (framing->state == FRAMING_HEADER) {
    return check_header_begin(framing, problem);
  }
  if (!may_be(framing, frame_word)) {
    snprintf(problem, PROTOCOL_PROBLEM, "the line before a frame must begin with FRAME: is the frame size right?");
    return false;
  }
  return true;
}

static size_t take_native(struct framing *framing, const char *bytes, size_t count, char problem[PROTOCOL_PROBLEM]) {
  struct native_frame frame;
  size_t part = NATIVE_FRAME_BYTES - framing->length;
  part = part < count ? part : count;
  memcpy(framing->line + framing->length, bytes, part);
  framing->length += part;
  if (!native_read_frame((const unsigned char *)framing->line, framing->length, framing->payload, &frame, problem)) {
    return SIZE_MAX;
  }
  if (framing->length == NATIVE_FRAME_BYTES) {
    framing->stamp =
        (struct frame_stamp){.tag = frame.sequence, .flags = frame.flags, .taken = frame.timestamp, .deadline = frame.deadline};
    framing->state = FRAMING_PAYLOAD;
    framing->length = 0;
  }
  return part;
}

size_t framing_take(struct framing *framing, const char *bytes, size_t count, char problem[PROTOCOL_PROBLEM]) {
  if (framing->protocol == CONFIG_PROTOCOL_NATIVE) {
    return framing->state == FRAMING_PAYLOAD ? 0 : take_native(framing, bytes, count, problem);
  }
  size_t taken = 0;
  while (taken < count && framing->state != FRAMING_PAYLOAD) {
    char byte = bytes[taken++];
    if (!(byte == '\n' ? end_line(framing, problem) : add_byte(framing, byte, problem))) {
      return SIZE_MAX;
    }
  }
  return taken;
}
