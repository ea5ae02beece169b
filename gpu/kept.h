/*
 * Files that a configuration names, as they were when they were read: whatever stands under their names by then, the image of
 * the process after a fault gets the same. One that may be changed in place is kept as a copy of what was in it.
 */
#ifndef FRAMED_GPU_KEPT_H
#define FRAMED_GPU_KEPT_H

#include <stdbool.h>
#include <stddef.h>

struct kept_file {
  char *path; /* NULL: none */
  int descriptor;
};

/* Opens for reading, without ever waiting: a file of the list, or one that is remembered, or the one of that name. -1 and errno
 * on error. */
int kept_open(const char *path, int flags, const struct kept_file *list, unsigned count);
/* A file that is open: the descriptor is taken. False: there is no memory. */
bool kept_hold(struct kept_file *file, const char *path, int descriptor);
/* Reads the first bytes of a file, without moving it: others may read it at the same time by the same descriptor. False and
 * errno on error, which is EBUSY where there are not as many. */
bool kept_read(int descriptor, void *bytes, size_t count);
/* What was read from a file, or made of it. False and errno if it cannot be kept. */
bool kept_copy(struct kept_file *file, const char *path, const void *bytes, size_t count);
void kept_close(struct kept_file *file); /* idempotent */

/* Adds a file to a list, unless one of its path is there or the list is full; it stays its owner's. Returns how many there are.
 */
unsigned kept_list(const struct kept_file *file, struct kept_file *list, unsigned count, unsigned most);

/* Whoever opens that path gets this file, until kept_forget(). The descriptor is taken. While nobody opens any. What is no file
 * of its own has a name that no path is, as of something in a file. */
void kept_remember(const char *path, int descriptor);
/* The file that is remembered by a name with this beginning, or NULL. */
const struct kept_file *kept_find(const char *beginning);
void kept_forget(void);
/* Adds those that are remembered to a list as kept_list() does. */
unsigned kept_remembered(struct kept_file *list, unsigned count, unsigned most);
/* Until it is called with NULL, this thread opens these files, before others of those names. They stay the caller's. */
void kept_offer(const struct kept_file *list, unsigned count);

#endif
