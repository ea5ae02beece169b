#include "daemon/base/log_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_continuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

/* Marks that change the text direction, and unusual line separators. With them a client could make one line look like
 * another. */
static bool is_deceptive(unsigned char first, unsigned char second, unsigned char third) {
  bool marks = first == 0xe2 && second == 0x80 && ((third >= 0x8e && third <= 0x8f) || (third >= 0xa8 && third <= 0xae));
  bool isolates = first == 0xe2 && second == 0x81 && third >= 0xa6 && third <= 0xa9;
  return marks || isolates;
}

/* Length of the valid UTF-8 sequence at `text` that is safe to print; 0 if its first byte must be escaped. Does not read past
 * the terminator, which is never a continuation byte. */
static size_t printable_length(const unsigned char *text) {
  unsigned char first = text[0];
  if (first < 0x80) {
    return first >= 0x20 && first != 0x7f ? 1 : 0;
  }
  if (first >= 0xc2 && first <= 0xdf) {
    bool is_c1 = first == 0xc2 && text[1] < 0xa0;
    bool is_letter_mark = first == 0xd8 && text[1] == 0x9c; /* ARABIC LETTER MARK changes the direction, too */
    return is_continuation(text[1]) && !is_c1 && !is_letter_mark ? 2 : 0;
  }
  if (first >= 0xe0 && first <= 0xef) {
    bool is_overlong = first == 0xe0 && text[1] < 0xa0;
    bool is_surrogate = first == 0xed && text[1] >= 0xa0;
    bool is_whole = is_continuation(text[1]) && is_continuation(text[2]) && !is_overlong && !is_surrogate;
    return is_whole && !is_deceptive(first, text[1], text[2]) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    bool is_outside = (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] >= 0x90);
    return is_continuation(text[1]) && is_continuation(text[2]) && is_continuation(text[3]) && !is_outside ? 4 : 0;
  }
  return 0;
}

static size_t escape_byte(char piece[8], unsigned char byte) {
  switch (byte) {
  case '\n':
    return (size_t)snprintf(piece, 8, "\\n");
  case '\r':
    return (size_t)snprintf(piece, 8, "\\r");
  case '\t':
    return (size_t)snprintf(piece, 8, "\\t");
  default:
    return (size_t)snprintf(piece, 8, "\\x%02x", byte);
  }
}

size_t log_text_bound(const char *text) { return 4 * strlen(text) + 1; }

size_t log_text_escape(char *out, size_t size, const char *text) {
  const unsigned char *from = (const unsigned char *)text;
  size_t length = 0;
  while (*from) {
    char escaped[8];
    size_t taken = printable_length(from);
    const void *piece = taken > 0 ? (const void *)from : escaped;
    size_t piece_length = taken > 0 ? taken : escape_byte(escaped, *from);
    if (length + piece_length + 1 > size) {
      break;
    }
    memcpy(out + length, piece, piece_length);
    length += piece_length;
    from += taken > 0 ? taken : 1;
  }
  if (size > 0) {
    out[length] = '\0';
  }
  return length;
}

const char *text_of_bytes(size_t bytes, char text[BYTES_TEXT]) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = (double)bytes;
  unsigned unit = 0;
  while (amount >= 1024 && unit + 1 < sizeof units / sizeof *units) {
    amount /= 1024;
    unit++;
  }
  snprintf(text, BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
  return text;
}
