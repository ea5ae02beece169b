#include "config/pattern.h"

#include <stdio.h>
#include <string.h>

enum kind { CHARACTER, DIGIT, PADDED /* a digit or a space; all but a slash */, ANY /* all but a slash */ };

/*
 * The possible text of each conversion. 9 is a digit, _ a digit or a space, and ? a character. + is any number of digits, and *
 * any number of characters. A form with % consists of other conversions.
 */
static const struct form {
  char conversion;
  const char *text;
} forms[] = {
    {'d', "99"},          {'H', "99"},
    {'I', "99"},          {'m', "99"},
    {'M', "99"},          {'S', "99"},
    {'U', "99"},          {'V', "99"},
    {'W', "99"},          {'y', "99"},
    {'C', "99"},          {'g', "99"},
    {'j', "999"},         {'u', "9"},
    {'w', "9"},           {'Y', "9999"},
    {'G', "9999"},        {'s', "9+"},
    {'e', "_9"},          {'k', "_9"},
    {'l', "_9"},          {'a', "*"},
    {'A', "*"},           {'b', "*"},
    {'B', "*"},           {'h', "*"},
    {'p', "*"},           {'P', "*"},
    {'Z', "*"},           {'z', "?9999"},
    {'F', "%Y-%m-%d"},    {'D', "%m/%d/%y"},
    {'x', "%m/%d/%y"},    {'T', "%H:%M:%S"},
    {'X', "%H:%M:%S"},    {'R', "%H:%M"},
    {'r', "%I:%M:%S %p"}, {'c', "%a %b %e %H:%M:%S %Y"},
    {'n', "\n"},          {'t', "\t"},
    {'%', NULL},
};

static const char flags[] = "_-0^#+123456789";

/* -- reading ----------------------------------------------------------------------------------------------------------- */

static bool add(struct pattern *pattern, enum kind kind, char character, bool many) {
  if (pattern->count >= PATTERN_MOST - PATTERN_NUMBER) {
    return false;
  }
  pattern->tokens[pattern->count++] =
      (struct pattern_token){.kind = (unsigned char)kind, .character = (unsigned char)character, .many = many};
  return true;
}

static bool add_form(struct pattern *pattern, const char *text) {
  bool fits = true;
  for (; fits && *text; text++) {
    switch (*text) {
    case '9':
      fits = add(pattern, DIGIT, 0, false);
      break;
    case '+':
      fits = add(pattern, DIGIT, 0, true);
      break;
    case '_':
      fits = add(pattern, PADDED, 0, false);
      break;
    case '?':
      fits = add(pattern, ANY, 0, false);
      break;
    case '*':
      fits = add(pattern, ANY, 0, true);
      break;
    default:
      fits = add(pattern, CHARACTER, *text, false);
    }
  }
  return fits;
}

static const struct form *form_of(char conversion) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (forms[i].conversion == conversion && conversion != '\0') {
      return &forms[i];
    }
  }
  return NULL;
}

/* Adds a form that consists of others, such as "%m/%d/%y". */
static bool add_forms(struct pattern *pattern, const char *text) {
  bool fits = true;
  for (; fits && *text; text++) {
    fits = *text == '%' ? add_form(pattern, form_of(*++text)->text) : add(pattern, CHARACTER, *text, false);
  }
  return fits;
}

/* Adds the conversion after a percent sign. Returns its last character; NULL: it cannot be recognised in a name. */
static const char *add_conversion(struct pattern *pattern, const char *at, bool *fits) {
  size_t flagged = strspn(at, flags);
  at += flagged;
  const char *modified = *at == 'E' ? "cCxXyY" : *at == 'O' ? "bBdeHhImMSuUVwWy" : NULL;
  at += modified != NULL;
  const struct form *form = !modified || (*at && strchr(modified, *at)) ? form_of(*at) : NULL;
  if (!form || (flagged > 0 && (!form->text || strchr(form->text, '%')))) {
    return NULL;
  }
  if (!form->text) {
    *fits = add(pattern, CHARACTER, '%', false);
  } else if (flagged == 0) {
    *fits = strchr(form->text, '%') ? add_forms(pattern, form->text) : add_form(pattern, form->text);
  } else { /* with a width or without padding */
    *fits = add(pattern, strpbrk(form->text, "*?") ? ANY : PADDED, 0, true);
  }
  return at;
}

/* Adds the number before the extension of the last part. */
static void add_number(struct pattern *pattern) {
  static const struct pattern_token number[PATTERN_NUMBER] = {{CHARACTER, '-', false}, {DIGIT, 0, false}, {DIGIT, 0, true}};
  size_t begin = pattern->count;
  pattern->number = pattern->count;
  while (begin > 0 && (pattern->tokens[begin - 1].kind != CHARACTER || pattern->tokens[begin - 1].character != '/')) {
    begin--;
  }
  for (size_t i = pattern->count; i > begin + 1 && pattern->number == pattern->count; i--) {
    if (pattern->tokens[i - 1].kind == CHARACTER && pattern->tokens[i - 1].character == '.') {
      pattern->number = i - 1;
      break;
    }
  }
  struct pattern_token *at = pattern->tokens + pattern->number;
  memmove(at + PATTERN_NUMBER, at, (pattern->count - pattern->number) * sizeof *at);
  memcpy(at, number, sizeof number);
  pattern->count += PATTERN_NUMBER;
}

/* -- names of segments ------------------------------------------------------------------------------------------------- */

enum { LONGEST_NAME = 255, LONGEST_WORD = 10 }; /* "Wednesday", the seconds of %s, a width of two digits */

/* The longest suffix of a name: the number of a second segment, and the daemon's suffixes while it writes. */
static const char most_behind[] = "-9.part.index";

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), bytes = strlen(end);
  return length >= bytes && strcmp(text + length - bytes, end) == 0;
}

static size_t longest_name(const struct pattern_part *part) {
  size_t bytes = strlen(most_behind);
  for (size_t i = 0; i < part->count - (part->number < part->count ? PATTERN_NUMBER : 0); i++) {
    bytes += part->tokens[i >= part->number ? i + PATTERN_NUMBER : i].many ? LONGEST_WORD : 1;
  }
  return bytes;
}

/* A name with the suffix of an unfinished segment or an index would be confused with such files. */
static bool can_name_segments(const char *text, const struct pattern *pattern, char problem[PATTERN_PROBLEM]) {
  struct pattern_part part;
  for (size_t from = 0; pattern_next(pattern, &from, &part);) {
    if (longest_name(&part) > LONGEST_NAME) {
      snprintf(problem, PATTERN_PROBLEM, "with '%s' behind it, a part of it is longer than %d bytes", most_behind,
               LONGEST_NAME);
      return false;
    }
  }
  bool is_part = ends_with(text, ".part");
  if (is_part || ends_with(text, ".index")) {
    snprintf(problem, PATTERN_PROBLEM, "'%s' at the end is a suffix that the daemon itself uses", is_part ? ".part" : ".index");
    return false;
  }
  return true;
}

bool pattern_read(const char *text, struct pattern *pattern, char problem[PATTERN_PROBLEM]) {
  bool fits = true;
  pattern->count = 0;
  for (const char *at = text; fits && *at; at++) {
    const char *percent = at;
    if (*at != '%') {
      fits = add(pattern, CHARACTER, *at, false);
    } else if (!(at = add_conversion(pattern, at + 1, &fits))) {
      int length = (int)(1 + strspn(percent + 1, flags) + 1);
      snprintf(problem, PATTERN_PROBLEM, "'%.*s' cannot be recognised in a name", length, percent);
      return false;
    }
  }
  if (!fits) {
    snprintf(problem, PATTERN_PROBLEM, "it is too long");
    return false;
  }
  add_number(pattern);
  return can_name_segments(text, pattern, problem);
}

/* -- parts ------------------------------------------------------------------------------------------------------------- */

struct pattern_part pattern_whole(const struct pattern *pattern) {
  return (struct pattern_part){.tokens = pattern->tokens, .count = pattern->count, .number = pattern->number};
}

bool pattern_next(const struct pattern *pattern, size_t *from, struct pattern_part *part) {
  size_t begin = *from, end = begin;
  while (end < pattern->count && (pattern->tokens[end].kind != CHARACTER || pattern->tokens[end].character != '/')) {
    end++;
  }
  bool has_number = pattern->number >= begin && pattern->number < end;
  *part = (struct pattern_part){
      .tokens = pattern->tokens + begin, .count = end - begin, .number = has_number ? pattern->number - begin : end - begin};
  *from = end + 1;
  return begin <= pattern->count;
}

bool pattern_is_fixed(const struct pattern_part *part, char *text, size_t size) {
  if (part->number < part->count || part->count >= size) {
    return false;
  }
  for (size_t i = 0; i < part->count; i++) {
    if (part->tokens[i].kind != CHARACTER) {
      return false;
    }
    text[i] = (char)part->tokens[i].character;
  }
  text[part->count] = '\0';
  return true;
}

/* -- common names of two patterns -------------------------------------------------------------------------------------- */

static bool takes(const struct pattern_token *token, unsigned char character) {
  bool is_digit = character >= '0' && character <= '9';
  return token->kind == CHARACTER ? token->character == character
         : token->kind == DIGIT   ? is_digit
         : token->kind == PADDED  ? is_digit || character == ' '
                                  : character != '/';
}

/* All kinds except CHARACTER share the digits. */
static bool share(const struct pattern_token *a, const struct pattern_token *b) {
  return a->kind == CHARACTER ? takes(b, a->character) : b->kind != CHARACTER || takes(a, b->character);
}

/* The i-th token, with or without those of the number. */
static const struct pattern_token *token_of(const struct pattern_part *part, size_t i, bool numbered) {
  return &part->tokens[!numbered && i >= part->number ? i + PATTERN_NUMBER : i];
}

static size_t count_of(const struct pattern_part *part, bool numbered) {
  return part->count - (!numbered && part->number < part->count ? PATTERN_NUMBER : 0);
}

/*
 * `here[j]`: a text matches both the first i tokens of one pattern and the first j of the other. Tokens are handled in order,
 * so two rows suffice.
 */
static bool have_common(const struct pattern_part *a, bool a_numbered, const struct pattern_part *b, bool b_numbered) {
  bool rows[2][PATTERN_MOST + 1] = {{true}};
  const size_t a_count = count_of(a, a_numbered), b_count = count_of(b, b_numbered);
  for (size_t i = 0; i <= a_count; i++) {
    bool *here = rows[i % 2], *below = rows[(i + 1) % 2];
    memset(below, 0, b_count + 1);
    for (size_t j = 0; j <= b_count; j++) {
      const struct pattern_token *one = i < a_count ? token_of(a, i, a_numbered) : NULL;
      const struct pattern_token *other = j < b_count ? token_of(b, j, b_numbered) : NULL;
      if (!here[j]) {
        continue;
      }
      bool both = one && other && share(one, other);
      below[j] = below[j] || (one && (one->many || (both && other->many)));
      if (j < b_count) {
        here[j + 1] = here[j + 1] || other->many || (both && one->many);
        below[j + 1] = below[j + 1] || (both && !one->many && !other->many);
      }
    }
    if (i == a_count) {
      return here[b_count];
    }
  }
  return false;
}

bool pattern_meets(const struct pattern_part *a, const struct pattern_part *b) {
  bool meet = have_common(a, false, b, false);
  if (!meet && a->number < a->count) {
    meet = have_common(a, true, b, false);
  }
  if (!meet && b->number < b->count) {
    meet = have_common(a, false, b, true) || (a->number < a->count && have_common(a, true, b, true));
  }
  return meet;
}

bool pattern_takes(const struct pattern_part *part, const char *name, size_t length) {
  struct pattern_token tokens[PATTERN_MOST];
  if (length > sizeof tokens / sizeof *tokens) {
    return false;
  }
  for (size_t i = 0; i < length; i++) {
    tokens[i] = (struct pattern_token){.kind = CHARACTER, .character = (unsigned char)name[i]};
  }
  const struct pattern_part text = {.tokens = tokens, .count = length, .number = length};
  return pattern_meets(part, &text);
}
