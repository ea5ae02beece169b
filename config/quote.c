#include "config/quote.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { WINDOW_BEFORE = 60, WINDOW = 100 }; /* characters shown before the place, and in all */

struct span {
  const char *begin, *end;
};

static bool is_continuation(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

static const char *next_character(const char *at, const char *end) {
  at++;
  while (at < end && is_continuation(*at)) {
    at++;
  }
  return at;
}

/* The length of the line break at `at`, or 0. YAML has more kinds of line breaks than most formats. */
static size_t break_length(const char *at, const char *end) {
  static const char *const breaks[] = {"\r\n", "\n", "\r", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};
  for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
    size_t length = strlen(breaks[i]);
    if ((size_t)(end - at) >= length && memcmp(at, breaks[i], length) == 0) {
      return length;
    }
  }
  return 0;
}

static bool find_line(struct span text, unsigned line, struct span *found) {
  const char *at = text.begin;
  while (line > 1 && at < text.end) {
    size_t length = break_length(at, text.end);
    at += length > 0 ? length : 1;
    line -= length > 0 ? 1 : 0;
  }
  found->begin = at;
  while (at < text.end && break_length(at, text.end) == 0) {
    at++;
  }
  found->end = at;
  return line == 1 && found->begin < found->end;
}

void quote_place(const char *text, size_t length, size_t offset, unsigned *line, unsigned *column) {
  const char *end = text + length;
  *line = *column = 1;
  for (const char *at = text; at < text + offset;) {
    size_t skipped = break_length(at, end);
    *line += skipped > 0 ? 1 : 0;
    *column = skipped > 0 ? 1 : *column + 1;
    at = skipped > 0 ? at + skipped : next_character(at, text + offset);
  }
}

/* The number of characters of the word at `at`: a quoted text, or a text up to a separator. At least 1. */
static unsigned word_length(const char *at, const char *end) {
  char quote = at < end && (*at == '"' || *at == '\'') ? *at : '\0';
  unsigned length = 0;
  while (at < end) {
    if (!quote && (strchr(" \t,[]{}", *at) || (*at == ':' && (at + 1 == end || strchr(" \t", at[1]))))) {
      break;
    }
    bool closed = quote && length > 0 && *at == quote;
    at = next_character(at, end);
    length++;
    if (closed) {
      break;
    }
  }
  return length > 0 ? length : 1;
}

/* The number of bytes of a UTF-8 character that begins with `lead`; 0 if none does. */
static size_t length_by_lead(unsigned char lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return 2;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    return 3;
  }
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

/* The number of bytes of the character at `at`. 0 if it is not UTF-8, or a control character, line break or byte order mark. */
static size_t printable_length(const char *at, const char *end) {
  static const uint32_t least[] = {0, 0x20, 0xA0, 0x800, 0x10000};
  size_t length = length_by_lead((unsigned char)*at);
  if (length == 0 || (size_t)(end - at) < length) {
    return 0;
  }
  uint32_t code = length == 1 ? (unsigned char)*at : (unsigned char)*at & (0x7FU >> length);
  for (size_t i = 1; i < length; i++) {
    if (!is_continuation(at[i])) {
      return 0;
    }
    code = code << 6 | ((unsigned char)at[i] & 0x3FU);
  }
  bool control = code < least[length] || code == 0x7F || code == 0x2028 || code == 0x2029 || code == 0xFEFF;
  bool none = (code >= 0xD800 && code <= 0xDFFF) || code == 0xFFFE || code == 0xFFFF || code > 0x10FFFF;
  return control || none ? 0 : length;
}

bool quote_is_printable(const char *text, size_t length) {
  const char *end = text + length;
  size_t step = 1;
  for (const char *at = text; at < end && step > 0; at += step) {
    step = printable_length(at, end);
  }
  return step > 0;
}

void quote_make_printable(char *text) {
  const char *end = text + strlen(text);
  for (char *at = text; at < end;) {
    size_t length = printable_length(at, end);
    if (length == 0) {
      *at = '?';
    }
    at += length > 0 ? length : 1;
  }
}

/* Prints exactly one character for each counted one, so that the caret fits. */
static void print_characters(FILE *out, struct span shown) {
  for (const char *at = shown.begin; at < shown.end; at = next_character(at, shown.end)) {
    size_t length = printable_length(at, shown.end);
    if (length > 0) {
      fwrite(at, 1, length, out);
    } else {
      fputc(*at == '\t' ? ' ' : '?', out);
    }
  }
}

static unsigned count_characters(struct span span) {
  unsigned count = 0;
  for (const char *at = span.begin; at < span.end; at = next_character(at, span.end)) {
    count++;
  }
  return count;
}

static const char *skip_characters(const char *at, const char *end, unsigned count) {
  for (; count > 0 && at < end; count--) {
    at = next_character(at, end);
  }
  return at;
}

static unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

void quote_print(FILE *out, const char *text, size_t length, unsigned line, unsigned column) {
  struct span found;
  if (!find_line((struct span){text, text + length}, line, &found)) {
    return;
  }
  const char *begin = found.begin;
  while (begin < found.end && (*begin == ' ' || *begin == '\t')) {
    begin++;
  }
  unsigned indent = (unsigned)(begin - found.begin) + 1;
  unsigned before = smaller(column > indent ? column - indent : 0, count_characters((struct span){begin, found.end}));
  bool cut = before > WINDOW_BEFORE;
  if (cut) {
    begin = skip_characters(begin, found.end, before - WINDOW_BEFORE);
    before = WINDOW_BEFORE;
  }
  struct span shown = {begin, skip_characters(begin, found.end, WINDOW)};
  const char *word = skip_characters(begin, found.end, before);
  unsigned width = smaller(word_length(word, found.end), count_characters((struct span){word, shown.end}));
  fputs(cut ? "    ..." : "    ", out);
  print_characters(out, shown);
  fprintf(out, "%s\n%*s^", shown.end < found.end ? "..." : "", (int)before + (cut ? 7 : 4), "");
  for (unsigned i = 1; i < width; i++) {
    fputc('~', out);
  }
  fputc('\n', out);
}

void quote_hide_secrets(char *text, size_t length) {
  char *end = text + length;
  for (char *at = memmem(text, length, "://", 3); at; at = memmem(at, (size_t)(end - at), "://", 3)) {
    char *secret = at += 3;
    char *sign = NULL;
    for (; at < end && !strchr(" \t\r\n\"'", *at); at++) { /* also ends at a zero byte */
      sign = *at == '@' ? at : sign;
    }
    if (sign) {
      memset(secret, '*', (size_t)(sign - secret));
    }
  }
}
