/*
 * Parses a YAML text into a tree of nodes with their places. Only this module uses libyaml.
 *
 * It rejects the following, so that no other module has to handle it: texts over YAML_MAX_BYTES, nesting over YAML_MAX_DEPTH
 * (libyaml is quadratic in depth), and more than one document. It also rejects anchors, aliases, tags, keys that are no text,
 * duplicate keys, and control characters in texts.
 */
#ifndef FRAMED_CONFIG_YAML_H
#define FRAMED_CONFIG_YAML_H

#include "config/config.h"

enum { YAML_MAX_BYTES = 1 << 20, YAML_MAX_DEPTH = 32 };

enum node_kind {
  NODE_TEXT,
  NODE_LIST,
  NODE_MAPPING,
  NODE_INVALID /* already reported, so readers skip it silently */
};

struct node {
  enum node_kind kind;
  struct config_mark at;
  char *name; /* its key, if it is in a mapping */
  struct config_mark name_at;
  char *text;  /* of a text; terminated, without NUL inside */
  bool quoted; /* a quoted text is never a number, a truth value or nothing */
  struct node *first, *last, *next;
};

/*
 * Reads `text`; `file` must outlive the nodes. NULL if the text is empty or unreadable. After an error, the readable rest is
 * returned, so that further errors can be found.
 */
struct node *yaml_read(const char *file, const char *text, size_t length, struct config_errors *errors);
struct node *node_free(struct node *node); /* with its children, not its successors; returns NULL */

/* The child called `name` of a mapping, or NULL. */
const struct node *node_find(const struct node *mapping, const char *name);
/* Whether the node is an empty value, which means an empty mapping, list or nothing. */
bool node_is_nothing(const struct node *node);

#endif
