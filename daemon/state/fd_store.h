/*
 * The fd store: the descriptor store of the service manager, where what outlives a process lies until the next one.
 *
 * The image lies there, and all descriptors of the table. At the front of the image stand a record that says what each
 * descriptor is (a state, which is live but for an orderly end; the rest of the image says how far each is), a journal that
 * says which files were being written, and a heartbeat that says until when.
 */
#ifndef FRAMED_STATE_FD_STORE_H
#define FRAMED_STATE_FD_STORE_H

#include "daemon/base/failure.h"
#include "daemon/measure/history.h"
#include "daemon/state/image.h"

/* -- this process's ------------------------------------------------------------------------------------------------- */

/* At an orderly end: gives the state, a record that is taken over, and all descriptors that are wanted to the store; then this
 * process may end. */
bool fd_store_keep(void *state, struct failure *failure);
/* In case there is none: replaces the state by this record (NULL: there is no memory), with all descriptors that are wanted;
 * where there is not room for all, by the listening sockets alone. */
void fd_store_keep_state(void *state);
/* What could not be said is due once more. */
void fd_store_try_again(void);

/* A file of results that is being written. */
struct fd_store_file {
  uint64_t path;         /* its checksum */
  uint64_t result_bytes; /* size of a whole result there; 0: unknown */
};
/* Replaces the journal, which is for a process that can make nothing of the state. */
void fd_store_note(const struct history *history, const struct fd_store_file *files, unsigned count);
/* Says that this process still runs, with so many clients. */
void fd_store_beat(int64_t now, uint64_t clients);
/* Takes back all descriptors that lie there, also what was received. */
void fd_store_withdraw(void);
/* This process ends by itself: the next one takes nobody for killed. */
void fd_store_end(void);

/* -- what the process before left ------------------------------------------------------------------------------------ */

/* What fd_store_keep() gave, or what was noted until a kill. False: there is nothing, or (with a sentence) nothing of use.
 * Until fd_store_release() it also stays in the store, for the next process if this one is killed before it has touched
 * anything; but not for ever. */
bool fd_store_receive(struct failure *failure);
/* The image of a process that executed this one or, as it is known here, `was_killed`; takes the descriptor over. Whether what
 * it holds is of use. */
bool fd_store_look_into(int fd, bool was_killed);
/* From now on this process reads and writes what it received, so that it is of no use to any other. Idempotent. */
void fd_store_release(void);
/* The next image of this process receives the same: nothing of it was touched, and that image does not count as another
 * process. */
void fd_store_repeat(void);
/* Whether a process before this one was killed; its last beat; and its history, if it left one. */
bool fd_store_was_killed(void);
struct image_heartbeat fd_store_last_heartbeat(void);
bool fd_store_recover(struct history *history);
/* Whether that process may have left the file with a part of a result at its end; `result_bytes`: of a whole one, or 0. */
bool fd_store_was_writing(const char *file, uint64_t *result_bytes);
/* Its image need not lie there any more. */
void fd_store_forget_image(void);
/* This process serves: listeners that nobody took are closed, and its files are its own. */
void fd_store_forget_last(void);

#endif
