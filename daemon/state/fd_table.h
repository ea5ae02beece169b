/*
 * The table of descriptors that the next process is to have. It lies in the image, so that the next one finds there what each
 * number meant; where there is a service manager's store, each lies there under its place in the table, where it stays over all
 * processes that go on with it. What leaves the table is taken away there, and its place is free once the manager was told so.
 *
 * Listening sockets are in the table as long as they are in use, and are found again by their addresses. All others are there
 * if the last state that was written has them.
 *
 * A number may come to mean another file between two looks, and the store would go on with the one before: so each is also
 * known by its device and inode.
 */
#ifndef FRAMED_STATE_FD_TABLE_H
#define FRAMED_STATE_FD_TABLE_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { FD_TABLE_OTHERS = 2 }; /* in a store beside those of the table: the image, for a moment beside the one before */

/* -- this process's ------------------------------------------------------------------------------------------------- */

/* [any thread] Descriptors have changed, and it is due to tell which are to be kept. A listener that comes or goes, and one
 * that leaves, says so by itself. */
void fd_table_mark(void);
bool fd_table_is_marked(void);

/* What is to be kept is told from here on: each descriptor in use (-1: none). If there is no memory for one, not all is kept.
 */
void fd_table_begin(void);
void fd_table_want(int fd);
/* Gives the store what is wanted and not there yet, or (all that stays wanted then) the listeners alone, if not more than
 * `room` would lie there. False: not all of it does. */
bool fd_table_keep(bool listeners_only, unsigned room);
/* How many a store has to keep. */
unsigned fd_table_needed(void);
/* Takes away those that are not wanted, or all of them. False: the manager was not told of all. */
bool fd_table_forget(bool wanted_too);
/* Those that are wanted stay open for the next program; before anything is wanted, all that came. False: not all of them are
 * what they were. */
bool fd_table_stay(void);

/* [any thread] A listening socket comes into use, for whoever knows it by that path or address; one that is `passed` by the
 * manager at every start, or one that has made that file. */
void fd_table_listen(int fd, const char *path, bool passed, const struct stat *file);
/* [any thread] A descriptor is to be closed, after which its number may mean another one; or (`is_aside`) nobody uses the
 * listener for now, which fd_table_take_listener() may give again. */
void fd_table_leave(int fd, bool is_aside);

/* -- what came from the process before ------------------------------------------------------------------------------ */

/* Takes what came, by exec or from the store, where the image that was left says what it is. */
void fd_table_receive(bool by_manager);
/* The number that the descriptor has now which had this one, or -1; it is taken once, and belongs to the caller. */
int fd_table_take(int before);
/* [any thread] The listener at a path, or at that address of TCP, that nobody has taken, or -1; `file`: which it made, or
 * zeros. */
int fd_table_take_listener(const char *path, const struct sockaddr *tcp, socklen_t length, bool *passed, struct stat *file);
/* Closes what nobody took, but for listeners; or those as well which the manager does not pass. */
void fd_table_close_rest(bool listeners);

#endif
