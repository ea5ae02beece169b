/*
 * Who is at the other end of a Unix socket, and whether a pipeline lets it in.
 *
 * The kernel vouches for pid, user and groups (SO_PEERCRED, SO_PEERGROUPS); nothing here believes the client.
 */
#ifndef FRAMED_CLIENT_PEER_H
#define FRAMED_CLIENT_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/config.h"

enum { PEER_PROCESS = 16 }; /* as the kernel has it, with its end */

struct peer {
  pid_t pid;
  char process[PEER_PROCESS]; /* the name of its process, safe to print; "": it has gone, or is hidden from us */
  uid_t uid;
  unsigned group_count;
  gid_t *groups; /* its own group first, then the supplementary ones, of which there may be 65536 */
};

/* False if the kernel does not say, or there is no memory; else peer_clear() follows. */
bool peer_read(int fd, struct peer *peer);
void peer_clear(struct peer *peer);
/* An empty list lets everybody in, a list only those it names, and root always. */
bool peer_allowed(const struct peer *peer, const struct config_allow *allow);
/* Writes one line, "framed: TEXT", if the client takes it at once. */
__attribute__((format(printf, 2, 3))) void peer_tell(int fd, const char *format, ...);
/* Whether the client has closed its end, though bytes of it may still wait to be read. */
bool peer_hung_up(int fd);

#endif
