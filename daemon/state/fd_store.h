/*
 * The fd store: the descriptor store of the service manager, where what outlives a process lies until the next one.
 *
 * The image lies there, and all descriptors of the table. At the front of the image stand the state, which says how all of that
 * is to be taken and what was being written, and a heartbeat that says until when.
 */
#ifndef FRAMED_STATE_FD_STORE_H
#define FRAMED_STATE_FD_STORE_H

#include "daemon/base/failure.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

/* -- this process's ------------------------------------------------------------------------------------------------- */

/* At an orderly end: gives the state, a record that is taken over, and all descriptors that are wanted to the store; then this
 * process may end. */
bool fd_store_keep(struct state *state, struct failure *failure);
/* In case there is none: replaces the state by this one (NULL: there is no memory), with all descriptors that are wanted; where
 * there is not room for all, by the listening sockets alone. */
void fd_store_keep_state(struct state *state);
/* Replaces the state by one that tells what this process does; with another `use` than that, for whoever gets the image. */
void fd_store_note(struct state *state, enum image_use use);
/* What could not be said is due once more. */
void fd_store_try_again(void);
/* Says that this process still runs, with so many clients. */
void fd_store_beat(int64_t now, uint64_t clients);
/* Takes back all descriptors that lie there, also what was received. */
void fd_store_withdraw(void);
/* This process ends by itself: the next one takes nobody for killed. */
void fd_store_end(void);

/* -- what the process before left ------------------------------------------------------------------------------------ */

enum receipt { RECEIPT_NONE, RECEIPT_WHOLE, RECEIPT_UNUSABLE };

/* What fd_store_keep() gave, or what was kept until a kill. UNUSABLE: with a sentence. Until fd_store_release() it also stays
 * in the store, for the next process if this one is killed before it has touched anything; but not for ever. */
enum receipt fd_store_receive(struct failure *failure);
/* Takes what is in the image of a process before this one; takes the descriptor over. */
enum receipt fd_store_look_into(int fd, bool by_manager, struct failure *failure);
/* From now on this process reads and writes what it received, so that it is of no use to any other. Idempotent. */
void fd_store_release(void);
/* The next image of this process receives the same: nothing of it was touched, and that image does not count as another
 * process. */
void fd_store_repeat(void);
/* Whether a process before this one was killed, and its last beat. */
bool fd_store_was_killed(void);
struct image_heartbeat fd_store_last_heartbeat(void);
/* Whether that process may have left the file with a part of a result at its end; `result_bytes`: of a whole one, or 0. */
bool fd_store_was_writing(const char *file, uint64_t *result_bytes);
/* Its image need not lie there any more. */
void fd_store_forget_image(void);
/* This process serves: listeners that nobody took are closed, and its files are its own. */
void fd_store_forget_last(void);

#endif
