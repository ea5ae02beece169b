/*
 * Which descriptors of this process lie in the service manager's store, by their numbers.
 *
 * A number may come to mean another file between two looks, and the store would go on with the one before: so each is also
 * known by its device and inode.
 */
#ifndef FRAMED_STATE_FD_TABLE_H
#define FRAMED_STATE_FD_TABLE_H

#include <stdbool.h>

#include "daemon/state/codec.h"

bool fd_table_is_listener(int fd);
/* Every descriptor in the codec lies there from then on, or every listener. False: not all of them do. */
bool fd_table_all(const struct codec *codec, bool listeners_only);
/* If there is no `room` for those that fd_table_all() would not give beside those that it would, takes the former away: else
 * the store would leave out others without a word. */
void fd_table_make_room(const struct codec *codec, bool listeners_only, unsigned room);
/* Takes away those that have not been on such a codec since this was called last. */
void fd_table_forget_others(void);
/* What lies there, for the next image of this process. */
void fd_table_pass(struct codec *codec);
/* Takes what a process before this one left there onto its codec. It also stays there. */
void fd_table_take(struct codec *codec);
/* All that fd_table_take() took lies there no longer: the store would keep connections open that both sides have closed. */
void fd_table_forget_taken(void);

#endif
