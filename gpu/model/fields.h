/*
 * A message of Protocol Buffers, one field after the other: each has a number and either a value or bytes. Nothing is believed
 * of a length that the message does not have.
 */
#ifndef FRAMED_GPU_MODEL_FIELDS_H
#define FRAMED_GPU_MODEL_FIELDS_H

#include "gpu/model/onnx_file.h"

struct fields {
  const unsigned char *at, *end;
};

struct field {
  unsigned number, wire;
  uint64_t value;
  struct fields bytes;
};

/* Takes the next field. False: the message is cut off, or is none. */
bool field_read(struct fields *message, struct field *field);
bool field_has_bytes(const struct field *field);
/* The bytes as a text; empty where the field has none. */
struct onnx_text field_text(const struct field *field);
bool text_is(struct onnx_text text, const char *other);

#endif
