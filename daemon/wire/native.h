/*
 * The room wire/: bytes to values and back, fuzzed alone.
 *
 * The native protocol's messages as bytes: checked when they come in, made when they go out. It depends on nothing but
 * those bytes, so that it can be tested and fuzzed alone; native_wire.h has the layout.
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

/* Whether so many first bytes may be a native client's. */
bool native_may_begin(const void *bytes, size_t count);

/* How many bytes the HELLO has that begins with these, as far as is known: there are two forms of it. */
size_t native_hello_bytes(const unsigned char *bytes, size_t count);

/* A whole HELLO. Otherwise the code and one sentence that say what is wrong with it. */
bool native_read_hello(const unsigned char bytes[NATIVE_HELLO_BYTES], struct native_hello *hello, enum native_error_code *code,
                       char problem[PROTOCOL_PROBLEM]);

/* The fixed part of a FRAME whose payload has so many bytes. Only the first `count` bytes have come; false as soon as one
 * of them is wrong. `frame` is set once all have. */
bool native_read_frame(const unsigned char *bytes, size_t count, uint64_t payload, struct native_frame *frame,
                       char problem[PROTOCOL_PROBLEM]);

void native_write_welcome(const struct native_welcome *welcome, unsigned char bytes[NATIVE_WELCOME_BYTES]);
/* What stands before a result's payload. */
void native_write_result(const struct native_result *result, uint64_t payload, unsigned char bytes[NATIVE_RESULT_BYTES]);
/* Adds to what a result says that there are none of before it. */
void native_add_dropped(unsigned char bytes[NATIVE_RESULT_BYTES], uint64_t frames);
void native_write_ack(uint64_t frames, unsigned char bytes[NATIVE_ACK_BYTES]);
/* A whole ERROR; returns its length. */
size_t native_write_error(enum native_error_code code, const char *sentence, unsigned char bytes[NATIVE_ERROR_BYTES]);

#endif
