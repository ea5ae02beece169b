/*
 * The keeper: the service manager's descriptor store, where what outlives a process lies until the next one.
 *
 * At an orderly end everything goes there, as it goes over exec in a hand-over. For the end that comes without a word, all
 * descriptors lie there at all times, with a roster that says what each of them is (a tape that is live; the chronicle says how
 * far each is), a journal that says which files were being written, and a pulse that says until when.
 */
#ifndef FRAMED_STATE_FD_STORE_H
#define FRAMED_STATE_FD_STORE_H

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/base/failure.h"
#include "daemon/measure/history.h"
#include "daemon/state/codec.h"

#define KEEPER_STATE "state" /* under which name the tape of an orderly end lies there */

/* Whether there is a store. */
bool keeper_is_there(void);

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

/* Gives the tape and all descriptors on it to the store; then this process may end. */
bool keeper_keep(const struct tape *tape, struct failure *failure);
/* What keeper_keep() gave, or the roster. False: there is nothing, or (with a sentence) nothing of use. Until keeper_release()
 * it also stays in the store, for the next process if this one is killed before it has touched anything; but not for ever. */
bool keeper_receive(struct tape *tape, struct failure *failure);
/* From now on this process reads and writes what it received, so that it is of no use to any other. Idempotent. */
void keeper_release(void);
/* The next image of this process receives the same: nothing of it was touched, and that image does not count as another
 * process. */
void keeper_repeat(void);

/* -- in case there is none ------------------------------------------------------------------------------------------ */

enum { KEEPER_MOST_FILES = 256 };

struct keeper_file { /* that results are written to, */
  char *path;
  uint64_t result_bytes; /* with so many for each */
};

struct keeper_journal {
  struct succession succession;
  struct keeper_file files[KEEPER_MOST_FILES];
  unsigned file_count;
};

/* What a process leaves that is killed. */
struct keeper_pulse {
  int64_t last;     /* CLOCK_MONOTONIC ns of its last beat, */
  uint64_t clients; /* and how many it had then */
  uint64_t takers;  /* how many processes have received what it left; KEEPER_SPENT: one of them has gone on from there */
};

#define KEEPER_SPENT UINT64_MAX

/* What is on the roster has changed, and keeper_keep_roster() is due. */
void keeper_mark(void);
bool keeper_is_marked(void);
/* Since this image reads and writes from now on, what the one before it noted is of no use to anybody. */
void keeper_spend_roster(void);
/* Replaces what lay there before by a tape that is live and all descriptors on it; without `whole`, or where there is not room
 * for all, by its listening sockets alone. */
void keeper_keep_roster(const struct tape *roster, bool whole);
/* keeper_keep_roster() is due once more if something of the roster could not be said. True: so is keeper_note(). */
bool keeper_try_again(void);
/* The same for the journal, which is for a process that can make nothing of the roster. */
void keeper_note(struct keeper_journal *journal);
/* The file of a socket was made, and no pipeline uses it yet: a process after this one removes it. From any thread; only one at
 * a time is at such files. A file that there is no room to note stays behind. */
void keeper_note_new_file(const char *path, const struct stat *made);
/* It is used, or gone. */
void keeper_forget_new_file(const char *path);
/* Says that this process still runs, with so many clients. */
void keeper_beat(int64_t now, uint64_t clients);
/* Takes back everything that lies there, also what was received. */
void keeper_withdraw(void);
/* This process ends by itself: the next one takes nobody for killed. */
void keeper_end(void);
/* What lies there by now, for the next image of this process. */
void keeper_pass(struct tape *tape);

/* -- after the other kind of end: fd_recall.c, as is keeper_receive() ---------------------------------------------- */

/* Whether a process before this one ended without a word; `journal` and `pulse` are its own. From then on
 * keeper_was_writing() and keeper_take_listener() know of it. */
bool keeper_recover(struct keeper_journal *journal, struct keeper_pulse *pulse);
/* The pulse alone, where the roster tells the rest. */
struct keeper_pulse keeper_last_pulse(void);
/* Whether there was such a process. */
bool keeper_was_killed(void);
/* Whether that process may have left the file with a part of a result at its end; `result_bytes`: of a whole one, or 0. */
bool keeper_was_writing(const char *file, uint64_t *result_bytes);
/* This process ends without having made anything of it: the next one is to find it. */
void keeper_recall_again(void);
/* This process executes itself anew, without the journal, but files are to be looked after all the same. False: no memory to
 * pass that on. */
bool keeper_expect_torn(void);
/* That process's listener at the path, or -1; `passed`: whether the manager passes it at every start. */
int keeper_take_listener(const char *path, bool *passed);
/* The same for an address of TCP. Its listeners elsewhere are closed: they may be in the way of a socket at this address. */
int keeper_take_listener_at(const struct sockaddr *address, socklen_t length);
/* A listener of that process, for keeper_take_listener() to give. */
void keeper_found(int fd, bool passed);
/* The same for all on this tape that nobody has taken. */
void keeper_find_listeners(struct tape *tape);
/* This process serves: listeners that nobody took are closed, and its files are its own. */
void keeper_forget_last(void);

#endif
