#include "config/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "config/errors.h"
#include "config/memory.h"
#include "config/quote.h"

struct loader {
  yaml_parser_t parser;
  struct config_errors *errors;
  const char *file;
  unsigned depth;
};

static struct config_mark mark_at(const struct loader *loader, yaml_mark_t mark) {
  return (struct config_mark){.file = loader->file, .line = (unsigned)mark.line + 1, .column = (unsigned)mark.column + 1};
}

/* -- nodes ------------------------------------------------------------------------------------------------------- */

struct node *node_free(struct node *node) {
  if (!node) {
    return NULL;
  }
  struct node *child = node->first;
  while (child) {
    struct node *next = child->next;
    node_free(child);
    child = next;
  }
  free(node->name);
  free(node->text);
  free(node);
  return NULL;
}

const struct node *node_find(const struct node *mapping, const char *name) {
  const struct node *child = mapping && mapping->kind == NODE_MAPPING ? mapping->first : NULL;
  while (child && strcmp(child->name, name) != 0) {
    child = child->next;
  }
  return child;
}

static bool is_one_of(const char *text, const char *const *words) {
  while (*words && strcmp(text, *words) != 0) {
    words++;
  }
  return *words != NULL;
}

bool node_is_nothing(const struct node *node) {
  static const char *const nothing[] = {"", "~", "null", "Null", "NULL", NULL};
  return node->kind == NODE_TEXT && !node->quoted && is_one_of(node->text, nothing);
}

static struct node *new_node(struct loader *loader, enum node_kind kind, yaml_mark_t mark) {
  struct node *node = memory_new(1, sizeof *node);
  if (!node) {
    errors_set_exhausted(loader->errors);
    return NULL;
  }
  node->kind = kind;
  node->at = mark_at(loader, mark);
  return node;
}

static void append(struct node *parent, struct node *child) {
  if (parent->last) {
    parent->last->next = child;
  } else {
    parent->first = child;
  }
  parent->last = child;
}

/* -- events ------------------------------------------------------------------------------------------------------ */

static const char *remedy_of(const struct loader *loader) {
  const char *problem = loader->parser.problem;
  if (strncmp(problem, "block sequence entries", 22) == 0) {
    return "a '-' that stands for standard input or output needs quotes: \"-\"";
  }
  if (strncmp(problem, "found character that cannot start", 33) == 0) {
    return "indent with spaces, not tabs; put a text that begins with a special character in quotes";
  }
  if (strncmp(problem, "mapping values are not allowed", 30) == 0) {
    return "check the indentation, and put a text with ': ' in quotes";
  }
  return NULL;
}

/* The place of the byte where libyaml's reader stopped. */
static struct config_mark place_of_problem(const struct loader *loader) {
  const yaml_parser_t *parser = &loader->parser;
  size_t length = (size_t)(parser->input.string.end - parser->input.string.start);
  size_t offset = parser->problem_offset < length ? parser->problem_offset : length;
  struct config_mark at = {.file = loader->file};
  quote_place((const char *)parser->input.string.start, length, offset, &at.line, &at.column);
  return at;
}

static void report_problem(struct loader *loader) {
  const yaml_parser_t *parser = &loader->parser;
  if (parser->error == YAML_MEMORY_ERROR) {
    errors_set_exhausted(loader->errors);
  } else if (parser->error == YAML_READER_ERROR) {
    config_errors_add(loader->errors, place_of_problem(loader), "the file must be UTF-8 text without control characters",
                      "not valid YAML: %s", parser->problem);
  } else if (parser->context) {
    config_errors_add(loader->errors, mark_at(loader, parser->problem_mark), remedy_of(loader),
                      "not valid YAML: %s (%s from line %zu on)", parser->problem, parser->context,
                      parser->context_mark.line + 1);
  } else {
    config_errors_add(loader->errors, mark_at(loader, parser->problem_mark), remedy_of(loader), "not valid YAML: %s",
                      parser->problem);
  }
}

static bool next_event(struct loader *loader, yaml_event_t *event) {
  if (yaml_parser_parse(&loader->parser, event)) {
    return true;
  }
  report_problem(loader);
  return false;
}

/* -- the tree ---------------------------------------------------------------------------------------------------- */

static struct node *read_text(struct loader *loader, const yaml_event_t *event) {
  const char *text = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length;
  struct node *node = new_node(loader, NODE_TEXT, event->start_mark);
  if (!node) {
    return NULL;
  }
  if (!quote_is_printable(text, length)) {
    node->kind = NODE_INVALID;
    config_errors_add(loader->errors, node->at, "write it on one line, without escapes", "a text holds a control character");
  }
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  node->text = memory_copy(text, length);
  if (!node->text) {
    errors_set_exhausted(loader->errors);
    return node_free(node);
  }
  return node;
}

static struct node *read_node(struct loader *loader, const yaml_event_t *event);

static bool read_list(struct loader *loader, struct node *list) {
  for (;;) {
    yaml_event_t event;
    if (!next_event(loader, &event)) {
      return false;
    }
    bool ended = event.type == YAML_SEQUENCE_END_EVENT;
    struct node *child = ended ? NULL : read_node(loader, &event);
    yaml_event_delete(&event);
    if (!child) {
      return ended;
    }
    append(list, child);
  }
}

static struct node *read_next(struct loader *loader) {
  yaml_event_t event;
  if (!next_event(loader, &event)) {
    return NULL;
  }
  struct node *node = read_node(loader, &event);
  yaml_event_delete(&event);
  return node;
}

/* Adds `value` to the mapping under `key`, and takes ownership of both. */
static void add_entry(struct loader *loader, struct node *mapping, struct node *key, struct node *value) {
  if (key->kind == NODE_TEXT) {
    value->name = key->text;
    value->name_at = key->at;
    key->text = NULL;
    append(mapping, value);
  } else {
    if (key->kind != NODE_INVALID) {
      config_errors_add(loader->errors, key->at, NULL, "a key must be a text, not a %s",
                        key->kind == NODE_LIST ? "list" : "mapping");
    }
    node_free(value);
  }
  node_free(key);
}

static bool read_mapping(struct loader *loader, struct node *mapping) {
  for (;;) {
    yaml_event_t event;
    if (!next_event(loader, &event)) {
      return false;
    }
    bool ended = event.type == YAML_MAPPING_END_EVENT;
    struct node *key = ended ? NULL : read_node(loader, &event);
    yaml_event_delete(&event);
    if (!key) {
      return ended;
    }
    struct node *value = read_next(loader);
    if (!value) {
      node_free(key);
      return false;
    }
    add_entry(loader, mapping, key, value);
  }
}

static int compare_names(const void *left, const void *right) {
  const struct node *a = *(const struct node *const *)left;
  const struct node *b = *(const struct node *const *)right;
  int order = strcmp(a->name, b->name);
  if (order != 0 || a == b) {
    return order;
  }
  bool before = a->name_at.line != b->name_at.line ? a->name_at.line < b->name_at.line : a->name_at.column < b->name_at.column;
  return before ? -1 : 1;
}

/* Sorts the keys, so that a hostile file cannot cause quadratic time. */
static bool check_duplicates(struct loader *loader, const struct node *mapping) {
  size_t count = 0;
  for (const struct node *child = mapping->first; child; child = child->next) {
    count++;
  }
  struct node **sorted = memory_new(count, sizeof *sorted);
  if (!sorted) {
    errors_set_exhausted(loader->errors);
    return false;
  }
  size_t filled = 0;
  for (struct node *child = mapping->first; child; child = child->next) {
    sorted[filled++] = child;
  }
  qsort(sorted, count, sizeof *sorted, compare_names);
  for (size_t i = 1; i < count; i++) {
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
      config_errors_add(loader->errors, sorted[i]->name_at, "remove one of the two",
                        "'%s' is here twice; the first is on line %u", sorted[i]->name, sorted[i - 1]->name_at.line);
      sorted[i]->kind = NODE_INVALID;
    }
  }
  free(sorted);
  return true;
}

static struct node *read_collection(struct loader *loader, const yaml_event_t *event) {
  bool is_list = event->type == YAML_SEQUENCE_START_EVENT;
  struct node *node = new_node(loader, is_list ? NODE_LIST : NODE_MAPPING, event->start_mark);
  if (!node) {
    return NULL;
  }
  if (loader->depth >= YAML_MAX_DEPTH) {
    config_errors_add(loader->errors, node->at, NULL, "nested deeper than %d levels", YAML_MAX_DEPTH);
    return node_free(node);
  }
  loader->depth++;
  bool whole = is_list ? read_list(loader, node) : read_mapping(loader, node) && check_duplicates(loader, node);
  loader->depth--;
  return whole ? node : node_free(node);
}

static bool has_tag_or_anchor(const yaml_event_t *event) {
  switch (event->type) {
  case YAML_SCALAR_EVENT:
    return event->data.scalar.anchor || event->data.scalar.tag;
  case YAML_SEQUENCE_START_EVENT:
    return event->data.sequence_start.anchor || event->data.sequence_start.tag;
  case YAML_MAPPING_START_EVENT:
    return event->data.mapping_start.anchor || event->data.mapping_start.tag;
  default:
    return false;
  }
}

/* NULL if reading must stop. */
static struct node *read_node(struct loader *loader, const yaml_event_t *event) {
  if (event->type == YAML_ALIAS_EVENT) {
    config_errors_add(loader->errors, mark_at(loader, event->start_mark), "write the value out", "aliases are not supported");
    return new_node(loader, NODE_INVALID, event->start_mark);
  }
  if (has_tag_or_anchor(event)) {
    config_errors_add(loader->errors, mark_at(loader, event->start_mark), "remove the word that begins with '&' or '!'",
                      "anchors and tags are not supported");
  }
  return event->type == YAML_SCALAR_EVENT ? read_text(loader, event) : read_collection(loader, event);
}

/* Skips events without content. False at the end of the text or at an error. */
static bool skip_to_document(struct loader *loader, yaml_mark_t *mark) {
  for (;;) {
    yaml_event_t event;
    if (!next_event(loader, &event)) {
      return false;
    }
    yaml_event_type_t type = event.type;
    *mark = event.start_mark;
    yaml_event_delete(&event);
    if (type == YAML_DOCUMENT_START_EVENT || type == YAML_STREAM_END_EVENT) {
      return type == YAML_DOCUMENT_START_EVENT;
    }
  }
}

static struct node *read_document(struct loader *loader) {
  yaml_mark_t mark;
  struct node *root = skip_to_document(loader, &mark) ? read_next(loader) : NULL;
  if (root && skip_to_document(loader, &mark)) {
    config_errors_add(loader->errors, mark_at(loader, mark), "remove the line '---' or use a file of its own in conf.d",
                      "a second document in one file");
  }
  return root;
}

struct node *yaml_read(const char *file, const char *text, size_t length, struct config_errors *errors) {
  struct loader loader = {.errors = errors, .file = file};
  if (length > YAML_MAX_BYTES) {
    config_errors_add(errors, (struct config_mark){.file = file}, "spread it over several files in conf.d",
                      "a configuration file may have at most %d MiB", YAML_MAX_BYTES >> 20);
    return NULL;
  }
  if (!yaml_parser_initialize(&loader.parser)) {
    errors_set_exhausted(errors);
    return NULL;
  }
  yaml_parser_set_encoding(&loader.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&loader.parser, (const unsigned char *)text, length);
  struct node *root = read_document(&loader);
  yaml_parser_delete(&loader.parser);
  return root;
}
