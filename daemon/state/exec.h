/*
 * The handover: this process executes a program in its place and leaves it a state, with the descriptors that are wanted.
 *
 * The process number stays, so that whoever supervises it sees nothing; memory, threads and device contexts go. What comes
 * after exec finds the image by an environment variable. With one that is not whole, or of another version, the program is
 * executed once more, without any descriptor.
 */
#ifndef FRAMED_STATE_EXEC_H
#define FRAMED_STATE_EXEC_H

#include "daemon/base/failure.h"
#include "daemon/state/fd_store.h"

/* First of all in main(): how this program was called, and where it was installed then. */
void exec_remember(char **argv);
/* With its state version behind it: the first line that a program writes which can take over (--check --state). */
#define EXEC_ANSWER "takes over states of version "
/* Its path, or NULL if the system does not say. */
const char *exec_program(void);

/* Before anything is opened: what the process before left, in state_left(). UNUSABLE: with a sentence. */
enum receipt exec_receive(struct failure *failure);
/* What becomes of a daemon that cannot go on, for the log. Sockets that the service manager passed can only be had from it
 * again. */
#define EXEC_BEGINS_ANEW "the daemon begins anew without its connections"
#define EXEC_ENDS        "the daemon ends, so that the service manager, which has its sockets, starts it anew"

/* Gives up a whole state: no descriptor that came with it is left. */
void exec_discard(void);
/* A handover needs descriptors even if clients have all others: so many are held in reserve for that, of EXEC_RESERVE. */
enum { EXEC_RESERVE = 8 }; /* of a pipe for the service manager to say that it has it, and of what starts a worker */
void exec_reserve(int count);

/* Executes the program (NULL: this one, even if its file is gone), which finds the state, a record that is taken over. Returns
 * only if that fails; then all is as before. No other thread may open a descriptor meanwhile. */
void exec_execute(const char *program, struct state *state, struct failure *failure);
/* Executes this program once more with the state that it received, of which nothing has been given back. Returns only if that
 * fails; then descriptors may have lost their meaning. */
void exec_repeat(struct failure *failure);
/* Executes this program anew, with nothing but what a process that was killed tells; signals wait as with a state. Returns only
 * if that fails. */
void exec_start_over(struct failure *failure);

#endif
