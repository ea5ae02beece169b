#include "config/quote.h"

#include <stdbool.h>
#include <string.h>

enum { WINDOW_BEFORE = 60, WINDOW = 100 }; /* characters shown before the place and in all */

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

/* Length of the line break at `at`, or 0. YAML knows more of them than most. */
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

/* Characters of the word at `at`: a quoted text, or what no separator ends. At least 1. */
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

static bool is_control(char byte) { return (unsigned char)byte < 0x20 || byte == 0x7F; }

/* U+0080 to U+009F: control characters of two bytes. */
static bool is_long_control(const char *at) { return (unsigned char)at[0] == 0xC2 && (unsigned char)at[1] < 0xA0; }

void quote_make_printable(char *text) {
  for (char *at = text; *at; at++) {
    if (is_long_control(at) && at[1]) {
      *at++ = '?';
      *at = '?';
    } else if (is_control(*at)) {
      *at = '?';
    }
  }
}

static void print_characters(FILE *out, struct span shown) {
  for (const char *at = shown.begin; at < shown.end; at = next_character(at, shown.end)) {
    size_t length = (size_t)(next_character(at, shown.end) - at);
    bool control = is_control(*at) || (length == 2 && is_long_control(at));
    if (*at == '\t') {
      fputc(' ', out);
    } else if (control) {
      fputc('?', out);
    } else {
      fwrite(at, 1, length, out);
    }
  }
}

static void repeat(FILE *out, char character, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    fputc(character, out);
  }
}

void quote_print(FILE *out, const char *text, size_t length, unsigned line, unsigned column) {
  struct span found;
  if (!find_line((struct span){text, text + length}, line, &found)) {
    return;
  }
  const char *at = found.begin;
  while (at < found.end && (*at == ' ' || *at == '\t')) {
    at++;
  }
  unsigned indent = (unsigned)(at - found.begin);
  unsigned before = column > indent + 1 ? column - 1 - indent : 0;
  bool cut = before > WINDOW_BEFORE;
  for (unsigned skipped = 0; cut && skipped < before - WINDOW_BEFORE && at < found.end; skipped++) {
    at = next_character(at, found.end);
  }
  before = cut ? WINDOW_BEFORE : before;
  struct span shown = {at, at};
  const char *word = found.end;
  unsigned characters = 0;
  for (; characters < WINDOW && shown.end < found.end; characters++) {
    word = characters == before ? shown.end : word;
    shown.end = next_character(shown.end, found.end);
  }
  unsigned width = word_length(word, found.end);
  unsigned room = characters > before ? characters - before : 1;
  fprintf(out, "    %s", cut ? "..." : "");
  print_characters(out, shown);
  fprintf(out, "%s\n    %s", shown.end < found.end ? "..." : "", cut ? "   " : "");
  repeat(out, ' ', before);
  fputc('^', out);
  repeat(out, '~', (width < room ? width : room) - 1);
  fputc('\n', out);
}
