/*
 * The bytes of a message between the daemon and a worker: numbers of eight bytes, and texts with their length.
 *
 * A writer that ran out of memory and a reader that came to an end too early both remember it: every later call does nothing,
 * and what is read is 0. So a message is packed or unpacked from beginning to end and judged once.
 */
#ifndef FRAMED_GPU_RECORD_PACK_H
#define FRAMED_GPU_RECORD_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack {
  unsigned char *bytes; /* on the heap; free() it */
  size_t length, room;
  bool failed; /* there was no memory */
};

void pack_bytes(struct pack *pack, const void *bytes, size_t count);
void pack_number(struct pack *pack, int64_t number);
void pack_real(struct pack *pack, double number);
/* NULL is a text too. */
void pack_text(struct pack *pack, const char *text);

struct unpack {
  const unsigned char *bytes;
  size_t length, at;
  bool failed; /* it was too short, or held what it must not */
};

void unpack_bytes(struct unpack *unpack, void *bytes, size_t count);
int64_t unpack_number(struct unpack *unpack);
/* A number from `least` to `most`; others are a failure and give `least`. */
int64_t unpack_within(struct unpack *unpack, int64_t least, int64_t most);
double unpack_real(struct unpack *unpack);
/* A text within the message, or NULL. */
const char *unpack_text(struct unpack *unpack);
/* The same, copied; too long ones are cut. NULL becomes empty. */
void unpack_text_into(struct unpack *unpack, char *text, size_t size);

#endif
