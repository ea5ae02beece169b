/*
 * A socket for messages to the service manager or the journal. It is opened once, so that it works when no more descriptors are
 * available. It never blocks unless asked to.
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

/* Opens a socket to a path, or with '@' first to an abstract address. A missing receiver shows with each message. Returns false
 * for an invalid address or without a descriptor. */
bool datagram_open(struct datagram *datagram, const char *address);
void datagram_close(struct datagram *datagram);

/* Sends one message with a descriptor (-1: none). Returns false if nobody receives, or (without `waits`) if the receiver's
 * queue is full. */
bool datagram_send(const struct datagram *datagram, const struct iovec *parts, int count, int fd, bool waits);
/* Sends a message of any length. One that is too long goes as a sealed memfd, which the journal accepts. Never waits. */
bool datagram_send_large(const struct datagram *datagram, const struct iovec *parts, int count);

#endif
