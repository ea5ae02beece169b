/* What lies at the front of the image for whoever finds it in the store; private to fd_store.c, which puts it there, and
 * fd_recall.c, which finds it. */
#ifndef FRAMED_STATE_FD_FRONT_H
#define FRAMED_STATE_FD_FRONT_H

#include "daemon/state/fd_store.h"

#define IMAGE "image-" /* its name there begins so, and ends with when it was made: the latest counts */

enum { NAME = 64, MOST_NEW_FILES = 64 };

/* The file at the path is still this one as long as all of this fits; the time is that of its making, since nobody writes to
 * it. */
struct new_file {
  char path[sizeof((struct sockaddr_un *)NULL)->sun_path]; /* empty: none */
  dev_t device;
  ino_t inode;
  struct timespec made;
};

struct fd_store_front {
  struct fd_store_heartbeat heartbeat; /* first: the one thing that other versions know */
  _Atomic uint64_t state, journal;     /* names of records; 0: none */
  struct new_file new_files[MOST_NEW_FILES];
};

/* Passes a journal through a codec, both ways. */
void fd_store_pass_journal(struct history *history, char **files, struct codec *codec);

/* fd_recall.c: the image of the process before this one need not lie in the store any more. */
void fd_store_forget_image(void);
/* That image says that nobody is killed. */
void fd_store_end_last(void);

#endif
