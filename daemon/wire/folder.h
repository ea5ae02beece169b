/*
 * Opens files in folders that another user may write to.
 *
 * A path is resolved once, folder by folder, to a descriptor of the folder with its last part. All later calls are relative to
 * this descriptor. A symbolic link on the way is followed only if root or this process's user owns it; otherwise the owner of a
 * folder could direct a daemon of root anywhere. A link as the last part is never followed. Only regular files are opened,
 * without blocking, so that a FIFO cannot block a thread.
 */
#ifndef FRAMED_WIRE_FOLDER_H
#define FRAMED_WIRE_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

enum { FOLDER_NAME = 256 };

struct folder_entry {
  int folder;       /* an O_PATH descriptor; -1: none */
  bool guarded;     /* no other user can replace a folder on the path */
  const char *path; /* the complete path, owned by the caller, and its last part */
  const char *name;
};

#define FOLDER_ENTRY_NONE ((struct folder_entry){.folder = -1})

/* Opens the folder of `path`. With `make`, makes missing folders. On false errno has the reason. */
bool folder_find(const char *path, bool make, struct folder_entry *entry);
/* Opens a folder itself as an O_PATH descriptor. -1: errno has the reason. */
int folder_open(const char *path);
/* Another name in the same folder. `entry` keeps the descriptor. */
static inline struct folder_entry folder_sibling(const struct folder_entry *entry, const char *path, const char *name) {
  return (struct folder_entry){.folder = entry->folder, .guarded = entry->guarded, .path = path, .name = name};
}
void folder_leave(struct folder_entry *entry); /* closes its folder; idempotent */

/* The following calls are about the file `name` with `suffix` appended. */

/* Opens a regular file. -1: errno has the reason, EMEDIUMTYPE for any other kind of file. */
int folder_open_file(const struct folder_entry *entry, const char *suffix, int flags);
bool folder_look(const struct folder_entry *entry, const char *suffix, struct stat *status); /* does not follow a link */
bool folder_remove(const struct folder_entry *entry, const char *suffix);
/* Never replaces an existing file. On file systems without RENAME_NOREPLACE it checks first. */
bool folder_rename(const struct folder_entry *entry, const char *suffix, const struct folder_entry *to, const char *to_suffix);
/* Writes the names in the folder to the disk. */
bool folder_sync(const struct folder_entry *entry);

/* The text of an errno of these calls. */
const char *folder_problem(int error);

#endif
