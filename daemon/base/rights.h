/*
 * Descriptors that clients pass along (SCM_RIGHTS), of which the daemon wants none.
 *
 * The last close of somebody else's file may wait: for a TCP peer that has said SO_LINGER, or for a file system. So no lane and
 * no control loop may drop one, be it by reading or by closing a connection whose messages are unread. Linux refuses them to
 * the sender where asked to (6.16); of older kernels, and of connections from before it was asked, they are taken and closed by
 * threads that may wait.
 */
#ifndef FRAMED_BASE_RIGHTS_H
#define FRAMED_BASE_RIGHTS_H

#include <stdbool.h>
#include <sys/uio.h>

#include "daemon/base/failure.h"

/* Starts the threads, once in a process. Without them everything is closed at once. */
bool rights_start(struct failure *failure);

/* Asks that nobody may pass any by that socket, or by the connections that come to it. Of other files nothing is asked. */
void rights_refuse(int fd);
/* Reads from a socket as recvmsg() does, without waiting. -1 with EPERM: there are more descriptors than can be taken now. */
ssize_t rights_read(int fd, struct iovec *vector, int count);
/* Whether any lie in what is unread there. Stays unread. */
bool rights_wait_in(int fd);
/* Closes a client's connection, or a listener: at once, or elsewhere if there may be descriptors in it. Any other file at once.
 */
void rights_close(int fd);
/* As rights_close(), where somebody else closes that number right after. */
void rights_leave(int fd);

#endif
