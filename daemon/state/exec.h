/*
 * The handover by exec: this process executes a program in its place, and leaves it the image and the wanted descriptors.
 *
 * The process number stays, so a supervisor notices nothing. Memory, threads and workers go. The new program finds the image by
 * an environment variable. If the image is not valid or of another version, the program executes itself once more without any
 * descriptor.
 */
#ifndef FRAMED_STATE_EXEC_H
#define FRAMED_STATE_EXEC_H

#include "daemon/base/failure.h"
#include "daemon/state/fd_store.h"

/* Call first in main(): remembers how this program was called, and where it was installed. */
void exec_remember(char **argv);
/* First line of the output of --check --state, followed by the state version, from any program that can take over. */
#define EXEC_ANSWER "takes over states of version "
/* Its path, or NULL if the system does not tell. */
const char *exec_program(void);

/* Call before anything is opened: receives what the previous process left, into state_left(). UNUSABLE: `failure` has the
 * reason. */
enum receipt exec_receive(struct failure *failure);
/* Log texts for a daemon that cannot take over. Sockets that the service manager passed can only be had from it again. */
#define EXEC_BEGINS_ANEW "the daemon begins anew without its connections"
#define EXEC_ENDS        "the daemon ends, so that the service manager, which has its sockets, starts it anew"

/* Discards a complete state with all its descriptors. */
void exec_discard(void);
/* Keeps `count` descriptors in reserve, at most EXEC_RESERVE. A handover needs them even if clients use all others. */
enum { EXEC_RESERVE = 8 }; /* for the pipe that confirms messages to the service manager, and for starting a worker */
void exec_reserve(int count);

/* Executes the program (NULL: this one, even if its file is gone). It finds `state`, which is taken over. Returns only on
 * failure, and then nothing has changed. No other thread may open a descriptor meanwhile. */
void exec_execute(const char *program, struct state *state, struct failure *failure);
/* Executes this program once more with the state that it received and has not touched. Returns only on failure; then
 * descriptors may be wrong. */
void exec_repeat(struct failure *failure);
/* Executes this program again with only the heartbeat of a killed process. Signals stay blocked, as with a state. Returns only
 * on failure. */
void exec_start_over(struct failure *failure);

#endif
