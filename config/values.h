/*
 * Between the files that read single values: how each says what it expects, and what one leaves to the other.
 */
#ifndef FRAMED_CONFIG_VALUES_H
#define FRAMED_CONFIG_VALUES_H

#include "config/reader.h"

/* Stores what the node says at `target`, which is of the key's type, or adds one error. */
typedef void value_reader(struct reader *reader, const struct config_key *key, const struct node *node, void *target);

value_reader value_read_user, value_read_group;   /* one id */
value_reader value_read_users, value_read_groups; /* lists, in a struct config_allow */

/* Adds the error "'NAME' must be EXPECTED, not ..."; `remedy` may be NULL. */
void value_expect(struct reader *reader, const char *name, const struct node *node, const char *remedy, const char *expected);
/* A text that YAML takes for a text, too. */
bool value_is_text(const struct node *node);

#endif
