/*
 * A socket for messages to the service manager or the journal. It is opened once, so that it is still there when no more
 * descriptors can be had, and it never waits for a reader that does not read, unless asked to.
 */
#ifndef FRAMED_BASE_DATAGRAM_H
#define FRAMED_BASE_DATAGRAM_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

struct datagram {
  int fd; /* -1: none */
  struct sockaddr_un address;
  socklen_t length; /* of the address */
};
#define DATAGRAM_NONE                                                                                                          \
  (struct datagram) { .fd = -1 }

/* To a path, or with '@' before it an abstract address; whether anybody is there shows with each message. False: no such
 * address, or no descriptor. */
bool datagram_open(struct datagram *datagram, const char *address);
void datagram_close(struct datagram *datagram);

/* Sends one message, with a descriptor (-1: without). False: nobody is there, or (without `waits`) nothing fits into what its
 * reader has not read. */
bool datagram_send(const struct datagram *datagram, const struct iovec *parts, int count, int fd, bool waits);
/* Sends one that may be too long for a message: then a sealed memory that holds it goes instead, as the journal takes it. Never
 * waits. */
bool datagram_send_large(const struct datagram *datagram, const struct iovec *parts, int count);

#endif
