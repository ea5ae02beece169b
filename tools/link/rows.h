/* Tables for mappings of the configuration: each row has a key, its type, its place in a structure and its bounds. */
#ifndef FRAMED_TOOLS_LINK_ROWS_H
#define FRAMED_TOOLS_LINK_ROWS_H

#include <stddef.h>

#include "config/keys.h"
#include "config/reader.h"

/*
 * The type of a key: text, a file relative to the configuration, a value of one of the daemon's types, or links, which are read
 * elsewhere.
 */
enum row_kind { ROW_TEXT, ROW_PATH, ROW_VALUE, ROW_LINKS };

struct row {
  struct config_key key;
  enum row_kind kind;
};

#define ROW(name_, kind_, type_, structure_, member_, ...)                                                                     \
  { .key = {.name = (name_), .type = (type_), .offset = offsetof(struct structure_, member_), __VA_ARGS__}, .kind = (kind_) }

/* Reads a mapping with the keys of `rows` into `structure`. `where` is its name in messages. */
void rows_read(struct reader *reader, const struct row *rows, const char *where, const struct node *node, void *structure);
void rows_read_one(struct reader *reader, const struct row *row, const struct node *node, void *structure);

/* Frees the texts under the keys of `rows`. */
void rows_free(const struct row *rows, void *structure);
/* Whether two structures have the same values under all keys of `rows`. */
bool rows_are_same(const struct row *rows, const void *structure, const void *other);
bool rows_are_same_text(const char *text, const char *other); /* either may be NULL */

/* False, with an error, if the node is no mapping. */
bool rows_is_mapping(struct reader *reader, const char *name, const struct node *node);
void rows_report_unknown(struct reader *reader, const char *where, const struct node *node, const char *const *names);
void rows_replace(char **target, char *text);

#endif
