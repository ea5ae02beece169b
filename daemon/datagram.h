/*
 * A socket for messages to the service manager or the journal. It is opened once, so that it is there where no other descriptor
 * is to be had, and it waits for nobody who does not read, unless it is asked to.
 */
#ifndef FRAMED_DAEMON_DATAGRAM_H
#define FRAMED_DAEMON_DATAGRAM_H

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

/* To a path, or with '@' before it an abstract address; who is there shows with each message. False: no such address, or no
 * descriptor. */
bool datagram_open(struct datagram *datagram, const char *address);
void datagram_close(struct datagram *datagram);

/* Sends one message, with a descriptor (-1: without). False: nobody is there, or (without `waits`) nothing fits into what its
 * reader has not read. */
bool datagram_send(const struct datagram *datagram, const struct iovec *parts, int count, int fd, bool waits);
/* Sends one that may be too long for a message: then a sealed memory with it goes, as the journal takes it. Never waits. */
bool datagram_send_large(const struct datagram *datagram, const struct iovec *parts, int count);

#endif
