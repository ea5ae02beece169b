/*
 * The fd store: the descriptor store of the service manager, where what outlives a process lies until the next one.
 *
 * The image lies there, and all descriptors under their numbers. At the front of the image stand the name of a record that says
 * what each descriptor is (a state, which is live but for an orderly end; the rest of the image says how far each is), that of
 * a journal that says which files were being written, and a heartbeat that says until when.
 */
#ifndef FRAMED_STATE_FD_STORE_H
#define FRAMED_STATE_FD_STORE_H

#include <stdio.h>
#include <sys/socket.h>

#include "daemon/base/failure.h"
#include "daemon/measure/history.h"

/* Whether there is a store. */
bool fd_store_is_there(void);

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

/* Gives the state, a record that is taken over, and all descriptors that are wanted to the store; then this process may end. */
bool fd_store_keep(void *state, struct failure *failure);
/* What fd_store_keep() gave, or what was noted until a kill. False: there is nothing, or (with a sentence) nothing of use.
 * Until fd_store_release() it also stays in the store, for the next process if this one is killed before it has touched
 * anything; but not for ever. */
bool fd_store_receive(struct failure *failure);
/* From now on this process reads and writes what it received, so that it is of no use to any other. Idempotent. */
void fd_store_release(void);
/* The next image of this process receives the same: nothing of it was touched, and that image does not count as another
 * process. */
void fd_store_repeat(void);

/* -- in case there is none ------------------------------------------------------------------------------------------ */

/* What a process leaves that is killed. */
struct fd_store_heartbeat {
  int64_t last;     /* CLOCK_MONOTONIC ns of its last beat; 0: it ended by itself */
  uint64_t clients; /* and how many it had then */
  uint64_t takers;  /* how many processes have received what it left */
};

/* Replaces the state by this record (NULL: there is no memory), with all descriptors that are wanted; where there is not room
 * for all, by the listening sockets alone. */
void fd_store_keep_state(void *state);
/* What could not be said is due once more. */
void fd_store_try_again(void);
/* Replaces the journal, which is for a process that can make nothing of the state: `files` were written by fd_store_list(),
 * each with the size of a whole result there (0: unknown); NULL: any file may be dirty. */
void fd_store_note(const struct history *history, const char *files);
void fd_store_list(FILE *out, const char *path, uint64_t result_bytes);
/* Says that this process still runs, with so many clients. */
void fd_store_beat(int64_t now, uint64_t clients);
/* Takes back all descriptors that lie there, also what was received. */
void fd_store_withdraw(void);
/* This process ends by itself: the next one takes nobody for killed. */
void fd_store_end(void);
/* The journal and the heartbeat of the process before take the place of this one's. */
void fd_store_note_again(const struct history *history, const char *files, const struct fd_store_heartbeat *heartbeat);

/* -- after the other kind of end: fd_recall.c, as is fd_store_receive() ---------------------------------------------- */

/* The image of the process before, which executed this one or, as it is known here, `was_killed`; takes the descriptor over.
 * Whether what it holds is of use. */
bool fd_store_look_into(int fd, bool was_killed);
/* Whether a process before this one ended without a word, and left its history. */
bool fd_store_recover(struct history *history);
struct fd_store_heartbeat fd_store_last_heartbeat(void);
/* Whether a process before this one was killed. */
bool fd_store_was_killed(void);
/* Whether that process may have left the file with a part of a result at its end; `result_bytes`: of a whole one, or 0. */
bool fd_store_was_writing(const char *file, uint64_t *result_bytes);
/* This process ends without having made anything of it: the next one is to find it. */
void fd_store_recall_again(void);
/* Whether such a list has the file, or is none; then any file may be dirty, and `result_bytes` stays. */
bool fd_store_is_dirty(const char *lines, const char *file, uint64_t *result_bytes);
/* This process serves: listeners that nobody took are closed, and its files are its own. */
void fd_store_forget_last(void);

#endif
