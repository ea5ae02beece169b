/*
 * A YAML text as a tree of nodes with their places. The only user of libyaml.
 *
 * What is refused here, so that nothing behind it need think of it: texts over YAML_MAX_BYTES or nested deeper than
 * YAML_MAX_DEPTH (libyaml is quadratic in depth), more than one document, anchors, aliases, tags, keys that are no
 * text, duplicate keys, and control characters in texts.
 */
#ifndef FRAMED_CONFIG_YAML_H
#define FRAMED_CONFIG_YAML_H

#include "config/config.h"

enum { YAML_MAX_BYTES = 1 << 20, YAML_MAX_DEPTH = 32 };

enum node_kind {
  NODE_TEXT,
  NODE_LIST,
  NODE_MAPPING,
  NODE_INVALID /* reported already: readers pass over it in silence */
};

struct node {
  enum node_kind kind;
  struct config_mark at;
  char *name; /* its key, if it is in a mapping */
  struct config_mark name_at;
  char *text;  /* of a text; terminated, without NUL inside */
  bool quoted; /* a text in quotes is never a number, a truth value or nothing */
  struct node *first, *last, *next;
};

/* Reads `text`; `file` must outlive the nodes. NULL if the text is empty or cannot be read at all. What can be read is
 * returned although errors were added, so that further errors are found behind the first. */
struct node *yaml_read(const char *file, const char *text, size_t length, struct config_errors *errors);
struct node *node_free(struct node *node); /* with its children, not its successors; returns NULL */

/* The child called `name` of a mapping, or NULL. */
const struct node *node_find(const struct node *mapping, const char *name);
/* Whether the node is an empty value, which stands for an empty mapping, list or nothing. */
bool node_is_nothing(const struct node *node);

#endif
