/*
 * The descriptor store of the service manager, which keeps the image and all descriptors of the table between two processes.
 *
 * The front of the image has the state, which says how to take the rest over and which files were being written. It also has a
 * heartbeat with the time until which that is valid.
 */
#ifndef FRAMED_STATE_FD_STORE_H
#define FRAMED_STATE_FD_STORE_H

#include "daemon/base/failure.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

/* -- of this process ------------------------------------------------------------------------------------------------ */

/* For an orderly end: stores the state, a record that is taken over, and all wanted descriptors. After success this process may
 * end. */
bool fd_store_keep(struct state *state, struct failure *failure);
/* For a possible kill: replaces the state by this one (NULL: no memory) and stores all wanted descriptors. If there is not
 * enough room for all, stores only the listening sockets. */
void fd_store_keep_state(struct state *state);
/* Replaces the state. With IMAGE_IS_REPORT it only reports what this process does; otherwise the next process can take over. */
void fd_store_note(struct state *state, enum image_use use);
/* Tries again what could not be stored. */
void fd_store_try_again(void);
/* Stores a heartbeat in the image: the time and the number of clients. */
void fd_store_beat(int64_t now, uint64_t clients);
/* Removes all stored descriptors, also those that were received. */
void fd_store_withdraw(void);
/* This process ends by itself, so the next one does not count it as killed. */
void fd_store_end(void);

/* -- from the previous process --------------------------------------------------------------------------------------- */

enum receipt { RECEIPT_NONE, RECEIPT_WHOLE, RECEIPT_UNUSABLE };

/* Receives what fd_store_keep() stored, or what was stored before a kill. UNUSABLE: `failure` has the reason. It also stays in
 * the store until fd_store_release(), in case this process is killed before it has touched anything; but not for more than
 * MOST_RECEIVERS processes. */
enum receipt fd_store_receive(struct failure *failure);
/* Reads the image of a previous process. Takes over the descriptor. */
enum receipt fd_store_open_image(int fd, bool by_manager, struct failure *failure);
/* From now on this process uses the descriptors that it received, so no other process may take them over. Idempotent. */
void fd_store_release(void);
/* The next image of this process will receive the same, untouched. It does not count as another process. */
void fd_store_repeat(void);
/* True if the previous process was killed; the other call returns its last heartbeat. */
bool fd_store_was_killed(void);
struct image_heartbeat fd_store_last_heartbeat(void);
/* True if that process may have left part of a result at the end of the file. `result_bytes`: size of a complete one, or 0. */
bool fd_store_was_writing(const char *file, uint64_t *result_bytes);
/* Removes its image from the store. */
void fd_store_forget_image(void);
/* This process serves now: closes listeners that nobody took. Its files count as its own. */
void fd_store_forget_last(void);

#endif
