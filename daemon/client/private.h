/*
 * Shared by the two parts of a listening socket. listener.c has its life; listener_path.c has the socket itself and the file of
 * a Unix socket.
 */
#ifndef FRAMED_CLIENT_PRIVATE_H
#define FRAMED_CLIENT_PRIVATE_H

#include <sys/types.h>

#include "daemon/client/listener.h"

struct listener {
  int fd;
  char *path;
  bool passed;  /* systemd holds the socket, and passes it at every start */
  bool created; /* the file at `path` is ours while it has this device and inode */
  dev_t device;
  ino_t inode;
  struct listener *next; /* in the list of new listeners */
};

/* -- listener_path.c ---------------------------------------------------------------------------------------------------- */

/* Makes a listener that has no socket yet. Returns NULL if there is no memory. */
struct listener *listener_make(const char *path, struct failure *failure);
bool listener_make_socket(struct listener *listener, int domain, struct failure *failure);
bool listener_listen(struct listener *listener, struct failure *failure);

/* Creates the socket and its file, which is new until it is used, and listens. */
bool listener_create(struct listener *listener, const struct config_socket_access *access, struct failure *failure);
void listener_use(const struct listener *listener);
/* True if this listener created the file at the path. Otherwise errno has the reason: 0 if another file is there. */
bool listener_has_file(const struct listener *listener);
void listener_remove_file(const struct listener *listener);

#endif
