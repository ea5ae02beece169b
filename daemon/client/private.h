/*
 * What the two parts of a listening socket share: listener.c has its life, from being found or made to being closed, and below
 * it listener_path.c has the socket itself and the file of a Unix one.
 */
#ifndef FRAMED_CLIENT_PRIVATE_H
#define FRAMED_CLIENT_PRIVATE_H

#include <sys/types.h>

#include "daemon/client/listener.h"

struct listener {
  int fd;
  char *path;
  bool passed;  /* systemd holds the socket, and passes it at every start */
  bool created; /* the file at `path` is ours, as long as it has these numbers: */
  dev_t device;
  ino_t inode;
  struct listener *next; /* on the list of new listeners, or of those that nobody uses */
};

/* -- listener_path.c ---------------------------------------------------------------------------------------------------- */

/* A listener without a socket. NULL: no memory. */
struct listener *listener_make(const char *path, struct failure *failure);
bool listener_make_socket(struct listener *listener, int domain, struct failure *failure);
bool listener_listen(struct listener *listener, struct failure *failure);

/* Makes the socket and its file, which is new until it comes into use, and listens. */
bool listener_create(struct listener *listener, const struct config_socket_access *access, struct failure *failure);
void listener_use(const struct listener *listener);
/* Whether the file at the path is still the one that this listener made. errno says why not: 0 if another file is there. */
bool listener_has_file(const struct listener *listener);
void listener_remove_file(const struct listener *listener);

#endif
