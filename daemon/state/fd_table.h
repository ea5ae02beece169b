/*
 * The table of descriptors for the next process. It is in the image, so the next process finds there what each number was. With
 * a descriptor store, each is stored under a number, which stays the same over all processes that take it over. A descriptor
 * that leaves the table is removed from the store, and its number is free once the manager knows.
 *
 * Listening sockets are in the table while they are used, and are found by their addresses. All others are there if the last
 * written state has them.
 *
 * A number may become another file, and the store would keep the old one. So each entry also has device and inode.
 */
#ifndef FRAMED_STATE_FD_TABLE_H
#define FRAMED_STATE_FD_TABLE_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { FD_TABLE_OTHERS = 2 }; /* descriptors in the store besides the table: the image, and for a moment the previous image */

/* -- of this process ------------------------------------------------------------------------------------------------ */

/* [any thread] Descriptors have changed, so the wanted ones must be listed again. Listeners and fd_table_leave() mark by
 * themselves. */
void fd_table_mark(void);
bool fd_table_is_marked(void);

/* Starts a new list of the descriptors to keep, and adds each one (-1: none). If memory is short, fd_table_keep() reports
 * it. */
void fd_table_begin(void);
void fd_table_want(int fd);
/* Stores the wanted descriptors that are not stored yet, or only the listeners, which then remain the only wanted ones. The
 * store may have at most `room`. Returns false if not all are stored. */
bool fd_table_keep(bool listeners_only, unsigned room);
/* Number of descriptors that a store must keep. */
unsigned fd_table_needed(void);
/* Removes unwanted descriptors from the store, or all. Returns false if the manager did not get every message. */
bool fd_table_forget(bool wanted_too);
/* Keeps the wanted descriptors open over exec; before any are wanted, all that were received. Returns false if one has become
 * another file. */
bool fd_table_stay(void);

/* [any thread] Registers a listening socket under that path or address. The manager passes it at every start (`passed`), or it
 * created `file`. */
void fd_table_listen(int fd, const char *path, bool passed, const struct stat *file);
/* [any thread] Call before a descriptor is closed, because its number may be reused. With `is_aside` the listener stays open
 * but unused, and fd_table_take_listener() may return it again. */
void fd_table_leave(int fd, bool is_aside);

/* -- received from the previous process ----------------------------------------------------------------------------- */

/* Registers what came by exec or from the store, according to the received table. */
void fd_table_receive(bool by_manager);
/* The current number of the descriptor that had this number in the previous process, or -1. Each can be taken once, and the
 * caller owns it. */
int fd_table_take(int before);
/* [any thread] Takes the unused listener at a path or TCP address, or -1. `file`: the file that it created, or zeros. */
int fd_table_take_listener(const char *path, const struct sockaddr *tcp, socklen_t length, bool *passed, struct stat *file);
/* Closes descriptors that nobody took, except listeners. With `listeners` also those that the manager does not pass. */
void fd_table_close_rest(bool listeners);

#endif
