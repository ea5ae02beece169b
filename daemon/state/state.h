/*
 * The room state/: what outlives a process.
 *
 * A state is the record of the image by which the next process finds all others. What stands in it is the server's; its version
 * is the image's, and a checksum stands before it, so that bytes with one bit wrong are none.
 */
#ifndef FRAMED_STATE_STATE_H
#define FRAMED_STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "daemon/base/failure.h"
#include "daemon/measure/history.h"
#include "daemon/measure/trouble.h"

/* Raised with every change of what is in the image, or of what it means. */
enum { STATE_VERSION = 23 };

/* -- this process's ------------------------------------------------------------------------------------------------- */

/* A record with these parts, which image_free() frees; `live`: it is for a process that follows should this one be killed.
 * NULL: there is no memory. */
void *state_write(const struct iovec *parts, int count, bool live);

/* -- what a process before this one left, until image_look_away() ---------------------------------------------------- */

struct left {
  const void *bytes;
  size_t length;
  bool live;       /* its process was killed: lanes stood anywhere, and descriptors may be gone */
  bool by_manager; /* the service manager had it, and also passes descriptors of its own */
};

/* What stands in the record at that address, if it is whole. */
bool state_read(const void *address, struct left *left);
/* The same for what this process goes on with; false, with a sentence. */
bool state_receive(const void *address, bool by_manager, struct failure *failure);
const struct left *state_left(void);

/* Takes what is known of all process images, and what was wrong with something. False: it makes no sense. */
bool history_adopt(struct history *history, const struct history *left);
bool trouble_adopt(struct trouble *trouble, const struct trouble *left);

/* -- versions ------------------------------------------------------------------------------------------------------- */

/* The sizes and limits of what lies in the image, which this file does not know. Before any thread is started. */
void state_set_layout(const size_t *sizes, size_t count);

/* What must be equal for a state to be understood, as text: the version, and the layout. */
enum { STATE_VERSION_TEXT = 32 };
const char *state_version(char text[STATE_VERSION_TEXT]);
uint64_t state_checksum(const void *bytes, size_t length);

#endif
