/*
 * Listening sockets: Unix sockets with owner, group and mode, and the TCP address of status.
 *
 * A Unix socket is never accessible to more users than its configuration allows. A path in use is never taken from a running
 * daemon. Only our own socket file is ever removed. Sockets passed by systemd are used as they are and stay open.
 */
#ifndef FRAMED_CLIENT_LISTENER_H
#define FRAMED_CLIENT_LISTENER_H

#include "config/config.h"
#include "daemon/base/failure.h"

struct listener;

/* Takes the socket that systemd passed as `name` (or for `path`), or creates one. For a set-up thread; NULL on error. */
struct listener *listener_open(const char *name, const char *path, const struct config_socket_access *access,
                               struct failure *failure);
/* Listens on "host:port" or "[host]:port"; the host is numeric, or `localhost`. */
struct listener *listener_open_tcp(const char *address, struct failure *failure);
/* Closes a listener and removes its file if it is still the one it created. A socket that systemd passed stays open for the
 * next listener_open() of its path. Accepts NULL; returns NULL. */
struct listener *listener_close(struct listener *listener);

/* Call before the listener is used. If its file was removed, creates it again with another socket. Returns false if nobody can
 * connect. */
bool listener_begin(struct listener *listener, const struct config_socket_access *access, struct failure *failure);

/* For a process that ends in its current state: removes the files of listeners that are not in use yet, and blocks the creation
 * of others until listener_allow_new(). Removed files are created again when their listeners are used. */
void listener_block_new(void);
void listener_allow_new(void);

int listener_fd(const struct listener *listener);
const char *listener_path(const struct listener *listener); /* or the TCP address */
/* Changes owner, group and mode of the socket file, as after a reload. */
bool listener_set_access(struct listener *listener, const struct config_socket_access *access, struct failure *failure);

#endif
