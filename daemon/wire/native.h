/*
 * The room wire/: bytes to values and back, fuzzed alone.
 *
 * Checks and writes the messages of the native protocol. It depends only on their bytes, so it can be tested and fuzzed alone.
 * native_wire.h has the layout.
 */
#ifndef FRAMED_WIRE_NATIVE_H
#define FRAMED_WIRE_NATIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/wire/native_wire.h"
#include "daemon/wire/protocol.h"

enum {
  NATIVE_HELLO_BYTES = sizeof(struct native_header) + sizeof(struct native_hello),
  NATIVE_SHORT_HELLO = offsetof(struct native_hello, token), /* without the header */
  NATIVE_SHORT_HELLO_BYTES = sizeof(struct native_header) + NATIVE_SHORT_HELLO,
  NATIVE_WELCOME_BYTES = sizeof(struct native_header) + sizeof(struct native_welcome),
  NATIVE_FRAME_BYTES = sizeof(struct native_header) + sizeof(struct native_frame),
  NATIVE_RESULT_BYTES = sizeof(struct native_header) + sizeof(struct native_result),
  NATIVE_ACK_BYTES = sizeof(struct native_header) + sizeof(struct native_ack),
  NATIVE_ERROR_BYTES = sizeof(struct native_header) + sizeof(struct native_error) + NATIVE_ERROR
};

/* True if these first bytes may come from a native client. */
bool native_may_begin(const void *bytes, size_t count);

/* Length of a HELLO that begins with these bytes. There are two forms; with too few bytes it assumes the short one. */
size_t native_hello_bytes(const unsigned char *bytes, size_t count);

/* Reads a complete HELLO. On false, the code and one sentence say what is wrong. */
bool native_read_hello(const unsigned char bytes[NATIVE_HELLO_BYTES], struct native_hello *hello, enum native_error_code *code,
                       char problem[PROTOCOL_PROBLEM]);

/* Checks the fixed part of a FRAME with that payload size, of which `count` bytes have come. Returns false as soon as one is
 * wrong. Sets `frame` once all have come. */
bool native_read_frame(const unsigned char *bytes, size_t count, uint64_t payload, struct native_frame *frame,
                       char problem[PROTOCOL_PROBLEM]);

void native_write_welcome(const struct native_welcome *welcome, unsigned char bytes[NATIVE_WELCOME_BYTES]);
/* The bytes that precede a result's payload. */
void native_write_result(const struct native_result *result, uint64_t payload, unsigned char bytes[NATIVE_RESULT_BYTES]);
/* Adds to the `dropped` of a result. */
void native_add_dropped(unsigned char bytes[NATIVE_RESULT_BYTES], uint64_t frames);
void native_write_ack(uint64_t frames, unsigned char bytes[NATIVE_ACK_BYTES]);
/* Writes a complete ERROR; returns its length. */
size_t native_write_error(enum native_error_code code, const char *sentence, unsigned char bytes[NATIVE_ERROR_BYTES]);

#endif
