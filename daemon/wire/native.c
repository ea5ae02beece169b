#include "daemon/wire/native.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the protocol is little-endian, and is copied as it lies in memory");

static struct native_header header_of(enum native_type type, uint64_t length) {
  return (struct native_header){.magic = NATIVE_MAGIC, .type = (uint16_t)type, .length = length};
}

/* -- reading ----------------------------------------------------------------------------------------------------- */

bool native_may_begin(const void *bytes, size_t count) {
  const uint32_t magic = NATIVE_MAGIC;
  return memcmp(bytes, &magic, count < sizeof magic ? count : sizeof magic) == 0;
}

size_t native_hello_bytes(const unsigned char *bytes, size_t count) {
  const struct native_header whole = header_of(NATIVE_HELLO, sizeof(struct native_hello));
  return count >= sizeof whole && memcmp(bytes, &whole, sizeof whole) == 0 ? NATIVE_HELLO_BYTES : NATIVE_SHORT_HELLO_BYTES;
}

bool native_read_hello(const unsigned char bytes[NATIVE_HELLO_BYTES], struct native_hello *hello, enum native_error_code *code,
                       char problem[PROTOCOL_PROBLEM]) {
  const struct native_header shorter = header_of(NATIVE_HELLO, NATIVE_SHORT_HELLO);
  bool whole = native_hello_bytes(bytes, NATIVE_HELLO_BYTES) == NATIVE_HELLO_BYTES;
  *code = NATIVE_E_PROTOCOL;
  *hello = (struct native_hello){0};
  memcpy(hello, bytes + sizeof shorter, whole ? sizeof *hello : (size_t)NATIVE_SHORT_HELLO);
  if (!whole && (memcmp(bytes, &shorter, sizeof shorter) != 0 || hello->flags != 0)) {
    snprintf(problem, PROTOCOL_PROBLEM, "a native client begins with a HELLO of %d or %zu bytes", NATIVE_SHORT_HELLO,
             sizeof *hello);
    return false;
  }
  /* checked first, because other versions may change everything else */
  if (hello->version < NATIVE_OLDEST || hello->version > NATIVE_VERSION) {
    *code = NATIVE_E_VERSION;
    snprintf(
        problem, PROTOCOL_PROBLEM,
        "this daemon speaks version %d of the protocol, the client version %u: use a client library of the daemon's version",
        NATIVE_VERSION, hello->version);
    return false;
  }
  if ((hello->flags & ~(uint32_t)NATIVE_HELLO_ACKS) != 0) {
    snprintf(problem, PROTOCOL_PROBLEM, "its HELLO has flags %#x, of which version %d does not know all", hello->flags,
             NATIVE_VERSION);
    return false;
  }
  if (hello->role < NATIVE_PRODUCER || hello->role > NATIVE_BOTH || hello->transport > NATIVE_SHARED) {
    snprintf(problem, PROTOCOL_PROBLEM, "there is no role %u with transport %u", hello->role, hello->transport);
    return false;
  }
  return true;
}

bool native_read_frame(const unsigned char *bytes, size_t count, uint64_t payload, struct native_frame *frame,
                       char problem[PROTOCOL_PROBLEM]) {
  const struct native_header expected = header_of(NATIVE_FRAME, sizeof *frame + payload);
  size_t known = offsetof(struct native_header, length);
  if (memcmp(bytes, &expected, count < known ? count : known) != 0) {
    snprintf(problem, PROTOCOL_PROBLEM, "a FRAME must follow: is the frame size right?");
    return false;
  }
  if (count < sizeof expected) {
    return true;
  }
  if (memcmp(bytes, &expected, sizeof expected) != 0) {
    struct native_header header;
    memcpy(&header, bytes, sizeof header);
    snprintf(problem, PROTOCOL_PROBLEM, "a FRAME of %llu bytes, where one of this pipeline has %llu",
             (unsigned long long)header.length, (unsigned long long)expected.length);
    return false;
  }
  if (count < NATIVE_FRAME_BYTES) {
    return true;
  }
  memcpy(frame, bytes + sizeof expected, sizeof *frame);
  if (frame->zero != 0 || (frame->flags & ~NATIVE_FRAME_FLAGS) != 0) {
    snprintf(problem, PROTOCOL_PROBLEM,
             "of the last 8 bytes before a frame's payload, some bit is set that must be zero in "
             "version %d",
             NATIVE_VERSION);
    return false;
  }
  return true;
}

/* -- writing ----------------------------------------------------------------------------------------------------- */

void native_write_welcome(const struct native_welcome *welcome, unsigned char bytes[NATIVE_WELCOME_BYTES]) {
  const struct native_header header = header_of(NATIVE_WELCOME, sizeof *welcome);
  memcpy(bytes, &header, sizeof header);
  memcpy(bytes + sizeof header, welcome, sizeof *welcome);
}

void native_write_result(const struct native_result *result, uint64_t payload, unsigned char bytes[NATIVE_RESULT_BYTES]) {
  const struct native_header header = header_of(NATIVE_RESULT, sizeof *result + payload);
  memcpy(bytes, &header, sizeof header);
  memcpy(bytes + sizeof header, result, sizeof *result);
}

void native_add_dropped(unsigned char bytes[NATIVE_RESULT_BYTES], uint64_t frames) {
  unsigned char *at = bytes + sizeof(struct native_header) + offsetof(struct native_result, dropped);
  uint64_t dropped;
  memcpy(&dropped, at, sizeof dropped);
  dropped += frames;
  memcpy(at, &dropped, sizeof dropped);
}

void native_write_ack(uint64_t frames, unsigned char bytes[NATIVE_ACK_BYTES]) {
  const struct native_ack ack = {.frames = frames};
  const struct native_header header = header_of(NATIVE_ACK, sizeof ack);
  memcpy(bytes, &header, sizeof header);
  memcpy(bytes + sizeof header, &ack, sizeof ack);
}

size_t native_write_error(enum native_error_code code, const char *sentence, unsigned char bytes[NATIVE_ERROR_BYTES]) {
  const struct native_error error = {.code = (uint32_t)code};
  size_t length = strnlen(sentence, NATIVE_ERROR);
  const struct native_header header = header_of(NATIVE_ERROR_SAID, sizeof error + length);
  memcpy(bytes, &header, sizeof header);
  memcpy(bytes + sizeof header, &error, sizeof error);
  memcpy(bytes + sizeof header + sizeof error, sentence, length);
  return sizeof header + sizeof error + length;
}
