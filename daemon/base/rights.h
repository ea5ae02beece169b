/*
 * Descriptors that clients pass (SCM_RIGHTS). The daemon uses no such descriptor.
 *
 * The last close of a foreign file may block: on a TCP peer with SO_LINGER, or on a file system. So neither a lane nor the
 * control loop may close one, not even by closing a connection with unread messages. Linux 6.16 can refuse such messages to the
 * sender. On older kernels, and for older connections, they are read and closed by threads that may block.
 */
#ifndef FRAMED_BASE_RIGHTS_H
#define FRAMED_BASE_RIGHTS_H

#include <stdbool.h>
#include <sys/uio.h>

#include "daemon/base/failure.h"

/* Starts the threads, once in a process. Without them everything is closed at once. */
bool rights_start(struct failure *failure);

/* Refuses descriptors on that socket or on the connections of that listener. Does nothing for other files. */
void rights_refuse(int fd);
/* Reads from a socket like recvmsg(), without blocking. -1 with EPERM: too many descriptors wait to be closed. */
ssize_t rights_read(int fd, struct iovec *vector, int count);
/* True if unread messages contain descriptors. Leaves them unread. */
bool rights_wait_in(int fd);
/* Closes a client's connection or a listener: at once, or on a thread if it may contain descriptors. Closes any other file at
 * once. */
void rights_close(int fd);
/* Like rights_close(), but the caller closes the number itself right after. */
void rights_leave(int fd);

#endif
