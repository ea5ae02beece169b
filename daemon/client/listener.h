/*
 * Listening sockets: Unix sockets with owner, group and mode, and the TCP address of status.
 *
 * A Unix socket is never visible with more access than its configuration gives, a path in use is never taken from a live
 * daemon, and only our own socket file is ever removed. Sockets passed by systemd are taken as they are and stay there.
 */
#ifndef FRAMED_CLIENT_LISTENER_H
#define FRAMED_CLIENT_LISTENER_H

#include "config/config.h"
#include "daemon/base/failure.h"

struct listener;

/* Takes the socket that systemd passed as `name` (or for `path`), or makes one. Set-up thread; NULL on error. */
struct listener *listener_open(const char *name, const char *path, const struct config_socket_access *access,
                               struct failure *failure);
/* Listens on "host:port" or "[host]:port"; the host is numeric, or `localhost`. */
struct listener *listener_open_tcp(const char *address, struct failure *failure);
/* Closes a listener and removes its file, if that is still the one it made. A socket that systemd passed stays open for whoever
 * opens its path next. NULL is fine; returns NULL. */
struct listener *listener_close(struct listener *listener);

/* A listener comes into use, before anybody accepts there: makes its file anew, with another socket, if the file has been
 * removed. False: nobody can connect to it. */
bool listener_begin(struct listener *listener, const struct config_socket_access *access, struct failure *failure);

/* For a process that ends as it is: removes the files of listeners that have not come into use, and lets no worker thread make
 * others until that is allowed again. Files that were removed are made anew when their listeners come into use. */
void listener_withhold_new(void);
void listener_allow_new(void);

int listener_fd(const struct listener *listener);
const char *listener_path(const struct listener *listener); /* or the TCP address */
/* Gives the socket file another owner, group and mode, as after a reload. */
bool listener_set_access(struct listener *listener, const struct config_socket_access *access, struct failure *failure);

#endif
