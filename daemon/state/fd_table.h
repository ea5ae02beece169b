/*
 * The table of descriptors of this process that lie in the service manager's store: each under its place in the table, where it
 * stays over all processes that go on with it. What enters the table is given to the store, and what leaves it is taken away;
 * its place is free once the manager was told so.
 *
 * A number may come to mean another file between two looks, and the store would go on with the one before: so each is also
 * known by its device and inode.
 */
#ifndef FRAMED_STATE_FD_TABLE_H
#define FRAMED_STATE_FD_TABLE_H

#include <stdbool.h>

#include "daemon/state/codec.h"

bool fd_table_is_listener(int fd);
/* For writing a codec for the manager, on which descriptors are passed by their places. */
void fd_table_begin(struct codec *codec);
/* Every descriptor in the codec lies there from then on, or every listener. False: not all of them do. */
bool fd_table_all(const struct codec *codec, bool listeners_only);
/* If there is no `room` for those that fd_table_all() would not give beside those that it would, takes the former away: else
 * the store would leave out others without a word. */
void fd_table_make_room(const struct codec *codec, bool listeners_only, unsigned room);
/* Takes away those that have not been on such a codec since this was called last. False: the manager was not told of all. */
bool fd_table_forget_others(void);
/* What lies there, for the next image of this process. */
void fd_table_pass(struct codec *codec);
/* Takes what lies there onto the codec of a process before this one. */
void fd_table_take(struct codec *codec);

#endif
