/* Reads users and groups by name or number. */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>

#include "config/errors.h"
#include "config/memory.h"
#include "config/reader.h"
#include "config/units.h"

static bool find_user(const char *name, unsigned *id) {
  const struct passwd *entry = getpwnam(name);
  *id = entry ? entry->pw_uid : 0;
  return entry != NULL;
}

static bool find_group(const char *name, unsigned *id) {
  const struct group *entry = getgrnam(name);
  *id = entry ? entry->gr_gid : 0;
  return entry != NULL;
}

/* Reads a name that the system knows, or a number. False if an error was added. */
static bool read_id(struct reader *reader, const struct config_key *key, const struct node *node, bool is_user, unsigned *id) {
  const char *kind = is_user ? "user" : "group";
  int64_t number;
  if (node->kind == NODE_TEXT && units_whole(node->text, &number) == UNITS_OK && number >= 0 && number < UINT32_MAX) {
    *id = (unsigned)number;
    return true;
  }
  if (!value_is_text(node) || !*node->text) {
    value_expect(reader, key->name, node, NULL, is_user ? "the name or number of a user" : "the name or number of a group");
    return false;
  }
  if (is_user ? find_user(node->text, id) : find_group(node->text, id)) {
    return true;
  }
  char remedy[READER_WHERE];
  snprintf(remedy, sizeof remedy, "make the %s, or name one that `getent %s` lists", kind, is_user ? "passwd" : "group");
  config_errors_add(reader->errors, node->at, remedy, "there is no %s '%.80s' on this system", kind, node->text);
  return false;
}

void value_read_user(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  read_id(reader, key, node, true, target);
}

void value_read_group(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  read_id(reader, key, node, false, target);
}

static bool append_id(struct reader *reader, unsigned **ids, unsigned *count, unsigned id) {
  unsigned *grown = memory_grow(*ids, *count, sizeof *grown);
  if (!grown) {
    errors_set_exhausted(reader->errors);
    return false;
  }
  *ids = grown;
  grown[(*count)++] = id;
  return true;
}

/* Appends the ids of a list of names to `*ids`. The number of names is limited, since each may need a slow look-up. */
static void read_ids(struct reader *reader, const struct config_key *key, const struct node *node, bool is_user, unsigned **ids,
                     unsigned *count) {
  if (node->kind != NODE_LIST && !node_is_nothing(node)) {
    value_expect(reader, key->name, node, "write it in brackets: [name]", "a list");
    return;
  }
  unsigned entries = 0;
  for (const struct node *child = node->first; child; child = child->next) {
    unsigned id;
    if (entries++ == KEYS_MOST_IDS) {
      config_errors_add(reader->errors, child->at, "allow a group instead", "'%s' has more than %d entries", key->name,
                        KEYS_MOST_IDS);
      return;
    }
    bool known = child->kind != NODE_INVALID && read_id(reader, key, child, is_user, &id);
    if (known && !append_id(reader, ids, count, id)) {
      return;
    }
  }
}

void value_read_users(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  struct config_allow *allow = target;
  read_ids(reader, key, node, true, &allow->users, &allow->user_count);
}

void value_read_groups(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  struct config_allow *allow = target;
  read_ids(reader, key, node, false, &allow->groups, &allow->group_count);
}
