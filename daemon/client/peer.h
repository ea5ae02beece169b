/*
 * The process at the other end of a Unix socket, and whether a pipeline allows it.
 *
 * Pid, user and groups come from the kernel (SO_PEERCRED, SO_PEERGROUPS); nothing is taken from the client.
 */
#ifndef FRAMED_CLIENT_PEER_H
#define FRAMED_CLIENT_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/config.h"

enum { PEER_PROCESS = 16 }; /* the kernel's limit, with terminator */

struct peer {
  pid_t pid;
  char process[PEER_PROCESS]; /* name of its process, safe to print; "": it is gone, or hidden from us */
  uid_t uid;
  unsigned group_count;
  gid_t *groups; /* its own group, then up to 65536 supplementary ones */
};

/* Returns false if the kernel does not tell, or without memory. Otherwise call peer_clear() later. */
bool peer_read(int fd, struct peer *peer);
void peer_clear(struct peer *peer);
/* An empty list allows everybody; otherwise only its entries, and always root. */
bool peer_allowed(const struct peer *peer, const struct config_allow *allow);
/* Writes one line, "framed: TEXT", if that does not block. */
__attribute__((format(printf, 2, 3))) void peer_send_text(int fd, const char *format, ...);
/* True if the client has closed its end, although bytes of it may still be unread. */
bool peer_hung_up(int fd);

#endif
