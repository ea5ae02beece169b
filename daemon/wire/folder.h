/*
 * Opens files in folders that another user may write to.
 *
 * A path is resolved once, folder by folder, to the descriptor of the folder that holds its last part; everything after that is
 * done relative to this descriptor. A symbolic link on the way is followed only if root or this process's own user owns it:
 * otherwise the owner of a folder could lead a daemon of root anywhere. A link in place of the last part is never followed, and
 * only a regular file is opened there, without waiting, so that a FIFO cannot hold up a thread.
 */
#ifndef FRAMED_WIRE_FOLDER_H
#define FRAMED_WIRE_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

enum { FOLDER_NAME = 256 };

struct folder_entry {
  int folder;       /* an O_PATH descriptor; -1: none */
  bool guarded;     /* no other user can replace a folder on the way to this one */
  const char *path; /* the whole path, the caller's, and its last part */
  const char *name;
};

#define FOLDER_ENTRY_NONE ((struct folder_entry){.folder = -1})

/* Opens the folder of `path`, and with `make` makes those that are missing. False: errno says why. */
bool folder_find(const char *path, bool make, struct folder_entry *entry);
/* Opens a folder itself: an O_PATH descriptor; -1: errno says why. */
int folder_open(const char *path);
/* Another name in the same folder, which `entry` goes on to own. */
static inline struct folder_entry folder_sibling(const struct folder_entry *entry, const char *path, const char *name) {
  return (struct folder_entry){.folder = entry->folder, .guarded = entry->guarded, .path = path, .name = name};
}
void folder_leave(struct folder_entry *entry); /* closes its folder; idempotent */

/* Each of these is about the file named `name` with `suffix` behind it. */

/* Opens a regular file; -1: errno says why, EMEDIUMTYPE where it is none. */
int folder_open_file(const struct folder_entry *entry, const char *suffix, int flags);
bool folder_look(const struct folder_entry *entry, const char *suffix, struct stat *status); /* follows no link */
bool folder_remove(const struct folder_entry *entry, const char *suffix);
/* Never replaces a file that has that name. A file system that cannot promise that knows no such flag. */
bool folder_rename(const struct folder_entry *entry, const char *suffix, const struct folder_entry *to, const char *to_suffix);
/* Has names that were given in the folder on the disk. */
bool folder_sync(const struct folder_entry *entry);

/* What an errno of these means. */
const char *folder_problem(int error);

#endif
