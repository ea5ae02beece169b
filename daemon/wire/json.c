#include "daemon/wire/json.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
  MOST_NUMBER = 24,  /* bytes of the longest number */
  MOST_WORDS = 96,   /* bytes of the names and signs around a row, or around all rows */
  MOST_ESCAPE = 6,   /* bytes for one byte of a string: \u001f */
  MOST_DECIMALS = 18 /* maximum without an exponent; 10 to this power is exact in a double */
};

static size_t most_string(const char *text) { return 2 + MOST_ESCAPE * strlen(text); }

size_t json_most_bytes(const struct json_shape *shape) {
  size_t label = 0;
  for (unsigned i = 0; i < shape->label_count; i++) {
    size_t bytes = most_string(shape->labels[i]);
    label = bytes > label ? bytes : label;
  }
  return MOST_WORDS + most_string(shape->pipeline) + 4 * MOST_NUMBER +
         shape->rows * (MOST_WORDS + shape->columns * (MOST_NUMBER + 1) + label);
}

/* -- strings ------------------------------------------------------------------------------------------------------ */

static char *put(char *at, const char *text) {
  while (*text) {
    *at++ = *text++;
  }
  return at;
}

static bool is_between(unsigned char byte, unsigned char least, unsigned char most) { return byte >= least && byte <= most; }

/* Length of the UTF-8 character at the start of a zero-terminated text; 0: it is invalid. */
static size_t character_bytes(const unsigned char *text) {
  /* range of the second byte; excludes overlong forms, surrogates and values above U+10FFFF */
  unsigned char least = 0x80, most = 0xbf;
  size_t length = text[0] >= 0xf0 ? 4 : 3;
  if (text[0] < 0x80) {
    return 1;
  }
  if (is_between(text[0], 0xc2, 0xdf)) {
    length = 2;
  } else if (!is_between(text[0], 0xe0, 0xf4)) {
    return 0;
  }
  least = text[0] == 0xe0 ? 0xa0 : least;
  least = text[0] == 0xf0 ? 0x90 : least;
  most = text[0] == 0xed ? 0x9f : most;
  most = text[0] == 0xf4 ? 0x8f : most;
  if (!is_between(text[1], least, most)) {
    return 0;
  }
  for (size_t i = 2; i < length; i++) {
    if (!is_between(text[i], 0x80, 0xbf)) {
      return 0;
    }
  }
  return length;
}

static char *put_escaped(char *at, unsigned char byte) {
  static const char digits[] = "0123456789abcdef";
  *at++ = '\\';
  if (byte == '"' || byte == '\\') {
    *at++ = (char)byte;
    return at;
  }
  at = put(at, "u00");
  *at++ = digits[byte >> 4];
  *at++ = digits[byte & 15];
  return at;
}

/* Each byte of invalid UTF-8 becomes U+FFFD. */
static char *put_string(char *at, const char *string) {
  const unsigned char *text = (const unsigned char *)string;
  *at++ = '"';
  while (*text) {
    size_t length = character_bytes(text);
    if (length == 0) {
      at = put(at, "\xef\xbf\xbd");
    } else if (*text < 0x20 || *text == '"' || *text == '\\') {
      at = put_escaped(at, *text);
    } else {
      memcpy(at, text, length);
      at += length;
    }
    text += length > 0 ? length : 1;
  }
  *at++ = '"';
  return at;
}

/* -- numbers ------------------------------------------------------------------------------------------------------ */

/* With at least that many digits, padded with zeros. */
static char *put_digits(char *at, uint64_t value, int least) {
  char digits[MOST_NUMBER];
  int count = 0;
  for (; value > 0 || count < least; value /= 10) {
    digits[count++] = (char)('0' + value % 10);
  }
  while (count > 0) {
    *at++ = digits[--count];
  }
  return at;
}

static char *put_integer(char *at, int64_t value) {
  if (value < 0) {
    *at++ = '-';
  }
  return put_digits(at, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
}

/* Finds the shortest decimal form that is the same float32 when read as a double. Returns false if it is too long. */
static bool find_decimals(double value, uint64_t *digits, uint64_t *power, int *decimals) {
  *power = 1;
  for (*decimals = 1; *decimals <= MOST_DECIMALS; (*decimals)++) {
    *power *= 10;
    *digits = (uint64_t)(value * (double)*power + 0.5);
    if ((float)((double)*digits / (double)*power) == (float)value) {
      return true;
    }
  }
  return false;
}

static char *put_float(char *at, float number) {
  const double least = 1e-9, most = 1e9; /* numbers in this range are written without an exponent */
  double value = fabs((double)number);
  uint64_t digits, power;
  int decimals;
  if (!isfinite(value)) {
    return put(at, "null");
  }
  if (value < most && value == floor(value)) {
    return put_integer(at, (int64_t)number);
  }
  if (value < least || value >= most || !find_decimals(value, &digits, &power, &decimals)) {
    return at + snprintf(at, MOST_NUMBER, "%.9g", (double)number);
  }
  if (number < 0) {
    *at++ = '-';
  }
  at = put_digits(at, digits / power, 1);
  *at++ = '.';
  return put_digits(at, digits % power, decimals);
}

/* -- rows --------------------------------------------------------------------------------------------------------- */

static char *put_field(char *at, const char *name, float number) { return put_float(put(at, name), number); }

static char *put_place(char *at, const float *row) {
  at = put_field(at, "{\"x\":", row[0]);
  at = put_field(at, ",\"y\":", row[1]);
  at = put_field(at, ",\"width\":", row[2]);
  return put_field(at, ",\"height\":", row[3]);
}

static char *put_label(const struct json_shape *shape, char *at, float class) {
  if (class >= 0 && class < (float)shape->label_count) {
    at = put_string(put(at, ",\"label\":"), shape->labels[(unsigned)class]);
  }
  return put(at, "}");
}

static char *put_comma(char *at, size_t before) { return before > 0 ? put(at, ",") : at; }

static char *put_stats(const struct json_shape *shape, const float *values, char *at) {
  at = put_field(at, "\"stats\":{\"minimum\":", values[0]);
  at = put_field(at, ",\"maximum\":", values[1]);
  at = put_field(at, ",\"mean\":", values[2]);
  at = put_field(at, ",\"counted\":", values[3]);
  at = put(at, ",\"histogram\":[");
  for (size_t i = 4; i < shape->columns; i++) {
    at = put_float(put_comma(at, i - 4), values[i]);
  }
  return put(at, "]}");
}

static char *put_motion(const struct json_shape *shape, const float *values, char *at) {
  at = put_field(at, "\"motion\":{\"groups\":", values[1]);
  at = put_field(at, ",\"changed\":", values[2]);
  at = put(at, ",\"boxes\":[");
  for (size_t i = 1; i < shape->rows && (float)i <= values[0]; i++) {
    const float *row = values + i * shape->columns;
    at = put_field(put_place(put_comma(at, i - 1), row), ",\"pixels\":", row[4]);
    at = put(at, "}");
  }
  return put(at, "]}");
}

static char *put_classes(const struct json_shape *shape, const float *values, char *at) {
  at = put(at, "\"classes\":[");
  for (size_t i = 0; i < shape->rows; i++) {
    const float *row = values + i * shape->columns;
    at = put_field(put_comma(at, i), "{\"class\":", row[0]);
    at = put_label(shape, put_field(at, ",\"score\":", row[1]), row[0]);
  }
  return put(at, "]");
}

static char *put_boxes(const struct json_shape *shape, const float *values, char *at) {
  at = put(at, "\"boxes\":[");
  for (size_t i = 0; i < shape->rows && values[i * shape->columns + 4] != 0; i++) {
    const float *row = values + i * shape->columns;
    at = put_field(put_place(put_comma(at, i), row), ",\"score\":", row[4]);
    at = put_label(shape, put_field(at, ",\"class\":", row[5]), row[5]);
  }
  return put(at, "]");
}

size_t json_write_line(const struct json_shape *shape, const struct json_frame *frame, const float *values, char *line) {
  static char *(*const writers[])(const struct json_shape *, const float *, char *) = {
      [JSON_STATS] = put_stats, [JSON_MOTION] = put_motion, [JSON_CLASSES] = put_classes, [JSON_BOXES] = put_boxes};
  char *at = put_string(put(line, "{\"pipeline\":"), shape->pipeline);
  at = put_digits(put(at, ",\"sequence\":"), frame->sequence, 1);
  at = put_integer(put(at, ",\"timestamp_ns\":"), frame->timestamp);
  at = put_digits(put(at, ",\"epoch\":"), frame->epoch, 1);
  at = put_digits(put(at, ",\"number\":"), frame->number, 1);
  at = writers[shape->kind](shape, values, put(at, ","));
  return (size_t)(put(at, "}\n") - line);
}
