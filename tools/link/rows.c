#include "tools/link/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/errors.h"
#include "config/suggest.h"

bool rows_is_mapping(struct reader *reader, const char *name, const struct node *node) {
  char text[READER_WHERE];
  if (node->kind == NODE_MAPPING || node_is_nothing(node)) {
    return true;
  }
  if (node->kind != NODE_INVALID) {
    config_errors_add(reader->errors, node->at, NULL, "'%.80s' must be a mapping of keys, not %s", name,
                      value_describe(node, text));
  }
  return false;
}

void rows_report_unknown(struct reader *reader, const char *where, const struct node *node, const char *const *names) {
  char remedy[SUGGEST_TEXT], list[SUGGEST_TEXT] = "keys are ";
  struct suggestion suggestion = suggest_begin(node->name);
  for (unsigned i = 0; names[i]; i++) {
    size_t used = strlen(list);
    suggest_offer(&suggestion, names[i]);
    snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
  }
  config_errors_add(reader->errors, node->name_at, suggest_text(&suggestion, list, remedy), "unknown key '%.80s' in %s",
                    node->name, where);
}

void rows_replace(char **target, char *text) {
  free(*target);
  *target = text;
}

void rows_read_one(struct reader *reader, const struct row *row, const struct node *node, void *structure) {
  void *target = (char *)structure + row->key.offset;
  if (node->kind == NODE_INVALID) {
    return;
  }
  if (row->kind == ROW_TEXT) {
    rows_replace(target, value_read_text(reader, row->key.name, node));
  } else if (row->kind == ROW_PATH) {
    rows_replace(target, value_read_path(reader, row->key.name, node));
  } else if (row->kind == ROW_VALUE) {
    value_read(reader, &row->key, node, target);
  }
}

static const struct row *find_row(const struct row *rows, const char *name) {
  while (rows->key.name && strcmp(rows->key.name, name) != 0) {
    rows++;
  }
  return rows->key.name ? rows : NULL;
}

void rows_read(struct reader *reader, const struct row *rows, const char *where, const struct node *node, void *structure) {
  const char *names[16] = {NULL};
  if (!rows_is_mapping(reader, where, node)) {
    return;
  }
  for (unsigned i = 0; rows[i].key.name; i++) {
    names[i] = rows[i].key.name;
    if (rows[i].key.required && !node_find(node, rows[i].key.name)) {
      config_errors_add(reader->errors, node->name_at, rows[i].key.help, "%s needs '%s'", where, rows[i].key.name);
    }
  }
  for (const struct node *child = node->first; child; child = child->next) {
    const struct row *row = find_row(rows, child->name);
    if (row) {
      rows_read_one(reader, row, child, structure);
    } else {
      rows_report_unknown(reader, where, child, names);
    }
  }
}

/* -- freeing and comparing --------------------------------------------------------------------------------------------- */

static bool holds_text(const struct row *row) {
  return row->kind == ROW_TEXT || row->kind == ROW_PATH || (row->kind == ROW_VALUE && row->key.type == KEY_SOCKET);
}

void rows_free(const struct row *rows, void *structure) {
  for (; rows->key.name; rows++) {
    if (holds_text(rows)) {
      rows_replace((char **)((char *)structure + rows->key.offset), NULL);
    }
  }
}

bool rows_are_same_text(const char *text, const char *other) {
  return text && other ? strcmp(text, other) == 0 : text == other;
}

static bool is_same(const struct row *row, const void *value, const void *other) {
  if (holds_text(row)) {
    return rows_are_same_text(*(char *const *)value, *(char *const *)other);
  }
  if (row->kind == ROW_LINKS) {
    return true;
  }
  switch (row->key.type) {
  case KEY_FLAG:
    return *(const bool *)value == *(const bool *)other;
  case KEY_CHOICE:
  case KEY_COUNT:
    return *(const unsigned *)value == *(const unsigned *)other;
  default: /* sizes and durations */
    return *(const int64_t *)value == *(const int64_t *)other;
  }
}

bool rows_are_same(const struct row *rows, const void *structure, const void *other) {
  while (rows->key.name && is_same(rows, (const char *)structure + rows->key.offset, (const char *)other + rows->key.offset)) {
    rows++;
  }
  return !rows->key.name;
}
