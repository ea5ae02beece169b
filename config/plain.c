/* Reads plain values of keys, stages and models: numbers, words, texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/errors.h"
#include "config/memory.h"
#include "config/reader.h"
#include "config/suggest.h"
#include "config/units.h"

const char *value_describe(const struct node *node, char text[READER_WHERE]) {
  if (node->kind == NODE_LIST) {
    return node->first ? "a list" : "an empty list";
  }
  if (node->kind == NODE_MAPPING) {
    return node->first ? "a mapping" : "an empty mapping";
  }
  if (node_is_nothing(node)) {
    return "an empty value";
  }
  snprintf(text, READER_WHERE, node->quoted ? "the text \"%.80s\"" : "'%.80s'", node->text);
  return text;
}

void value_expect(struct reader *reader, const char *name, const struct node *node, const char *remedy, const char *expected) {
  char text[READER_WHERE];
  config_errors_add(reader->errors, node->at, remedy, "'%s' must be %s, not %s", name, expected, value_describe(node, text));
}

bool value_is_text(const struct node *node) {
  double number;
  return node->kind == NODE_TEXT &&
         (node->quoted || (!node_is_nothing(node) && strcmp(node->text, "true") != 0 && strcmp(node->text, "false") != 0 &&
                           units_number(node->text, &number) == UNITS_MALFORMED));
}

bool value_read_number(struct reader *reader, const char *name, const struct node *node, bool whole, double *number) {
  int64_t integer = 0;
  enum units_result result = UNITS_MALFORMED;
  if (node->kind == NODE_TEXT && !node->quoted) {
    result = whole ? units_whole(node->text, &integer) : units_number(node->text, number);
  }
  if (result == UNITS_MALFORMED) {
    bool in_quotes = node->kind == NODE_TEXT && node->quoted && units_number(node->text, number) == UNITS_OK;
    value_expect(reader, name, node, in_quotes ? "remove the quotes" : NULL, whole ? "a whole number" : "a number");
  } else if (result != UNITS_OK) {
    config_errors_add(reader->errors, node->at, NULL, "'%s' is too large: %.80s", name, node->text);
  } else if (whole) {
    *number = (double)integer;
  }
  return result == UNITS_OK;
}

bool value_read_word(struct reader *reader, const char *name, const struct node *node, const char *const *words,
                     const char *remedy, unsigned *index) {
  struct suggestion suggestion = suggest_begin(node->kind == NODE_TEXT ? node->text : "");
  char list[SUGGEST_TEXT] = "";
  size_t used = 0;
  for (unsigned i = 0; words[i]; i++) {
    if (!words[i][0]) {
      continue;
    }
    if (node->kind == NODE_TEXT && strcmp(node->text, words[i]) == 0) {
      *index = i;
      return true;
    }
    suggest_offer(&suggestion, words[i]);
    int length = snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", words[i]);
    used += (size_t)length < sizeof list - used ? (size_t)length : 0;
  }
  char near[SUGGEST_TEXT];
  char expected[SUGGEST_TEXT + 16];
  snprintf(expected, sizeof expected, "one of: %s", list);
  value_expect(reader, name, node, remedy ? remedy : suggest_text(&suggestion, NULL, near), expected);
  return false;
}

char *value_read_text(struct reader *reader, const char *name, const struct node *node) {
  if (!value_is_text(node) || !node->text[0]) {
    bool plain = node->kind == NODE_TEXT && !node->quoted && !node_is_nothing(node);
    value_expect(reader, name, node, plain ? "put it in quotes" : NULL, "a text");
    return NULL;
  }
  char *copy = memory_copy(node->text, strlen(node->text));
  if (!copy) {
    errors_set_exhausted(reader->errors);
  }
  return copy;
}

char *value_read_path(struct reader *reader, const char *name, const struct node *node) {
  char *text = value_read_text(reader, name, node);
  const char *slash = strrchr(node->at.file, '/');
  if (!text || text[0] == '/' || !slash) {
    return text;
  }
  size_t folder = (size_t)(slash - node->at.file) + 1;
  size_t room = folder + strlen(text) + 1;
  char *path = memory_new(room, 1);
  if (path) {
    snprintf(path, room, "%.*s%s", (int)folder, node->at.file, text);
  } else {
    errors_set_exhausted(reader->errors);
  }
  free(text);
  return path;
}
