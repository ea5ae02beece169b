/* What lies at the front of the image for whoever finds it in the store; private to fd_store.c, which puts it there, and
 * fd_recall.c, which finds it. */
#ifndef FRAMED_STATE_FD_FRONT_H
#define FRAMED_STATE_FD_FRONT_H

#include "daemon/state/fd_store.h"

#define IMAGE "image-" /* its name there begins so, and ends with when it was made: the latest counts */

enum {
  NAME = 64,
  OTHERS = 2 /* beside descriptors of the table: the image, for a moment beside that of the process before */
};

struct fd_store_front {
  struct fd_store_heartbeat heartbeat;    /* first: the one thing that other versions know */
  _Atomic uint64_t state, journal, table; /* names of records; 0: none */
};

/* What a process needs to know which can make nothing of a state. */
struct journal {
  struct history history;
  char files[]; /* as fd_store_list() writes them; without an end: any file may be dirty */
};

/* Under which name an image lies there that was made then. */
const char *fd_store_image_name(uint64_t born, char name[NAME]);

/* -- fd_received.c, as are fd_store_release() and fd_store_repeat() ----------------------------------------------------- */

/* The image of the process before this one, which was made then, lies there (0: none does). */
void fd_received_image(uint64_t born);
bool fd_received_has_image(void);
/* It need not any more. */
void fd_received_forget_image(void);
/* That image says that nobody is killed. */
void fd_received_end(void);
/* So many processes have received before this one. Leaves all of it to the next process, should this one be killed, if it is
 * `of_use`; but not for ever, since it may be what processes are killed for. */
void fd_received_leave(bool of_use, uint64_t takers);

#endif
