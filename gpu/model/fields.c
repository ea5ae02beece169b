#include "gpu/model/fields.h"

#include <string.h>

enum { WIRE_VALUE = 0, WIRE_8_BYTES = 1, WIRE_BYTES = 2, WIRE_4_BYTES = 5 };

static bool read_number(struct fields *message, uint64_t *number) {
  *number = 0;
  for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
    unsigned char byte = *message->at++;
    *number |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) {
      return true;
    }
  }
  return false;
}

static bool read_bytes(struct fields *message, uint64_t count, struct fields *bytes) {
  if (count > (uint64_t)(message->end - message->at)) {
    return false;
  }
  *bytes = (struct fields){message->at, message->at + count};
  message->at += count;
  return true;
}

bool field_read(struct fields *message, struct field *field) {
  uint64_t key;
  *field = (struct field){0};
  if (!read_number(message, &key) || key >> 3 == 0 || key >> 3 > 1 << 29) {
    return false;
  }
  field->number = (unsigned)(key >> 3);
  field->wire = (unsigned)(key & 7);
  switch (field->wire) {
  case WIRE_VALUE:
    return read_number(message, &field->value);
  case WIRE_8_BYTES:
    return read_bytes(message, 8, &field->bytes);
  case WIRE_4_BYTES:
    return read_bytes(message, 4, &field->bytes);
  case WIRE_BYTES:
    return read_number(message, &field->value) && read_bytes(message, field->value, &field->bytes);
  default:
    return false;
  }
}

bool field_has_bytes(const struct field *field) { return field->wire == WIRE_BYTES; }

struct onnx_text field_text(const struct field *field) {
  bool has_bytes = field_has_bytes(field);
  return (struct onnx_text){has_bytes ? (const char *)field->bytes.at : "",
                            has_bytes ? (size_t)(field->bytes.end - field->bytes.at) : 0};
}

bool text_is(struct onnx_text text, const char *other) {
  return text.length == strlen(other) && memcmp(text.text, other, text.length) == 0;
}
