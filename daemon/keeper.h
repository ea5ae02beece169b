/*
 * The keeper: the service manager's descriptor store, where what outlives a process lies until the next one.
 *
 * At an orderly end everything goes there, as it goes over exec in a hand-over. For the end that comes without a word, the
 * listeners lie there at all times, with a journal that says which files were being written, and a pulse that says until when.
 */
#ifndef FRAMED_DAEMON_KEEPER_H
#define FRAMED_DAEMON_KEEPER_H

#include "daemon/failure.h"
#include "daemon/succession.h"
#include "daemon/tape.h"

struct listener;

#define KEEPER_STATE "state" /* under which name the tape lies there */

/* Whether there is a store. */
bool keeper_is_there(void);

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

/* Gives the tape and all descriptors on it to the store; then this process may end. */
bool keeper_keep(const struct tape *tape, struct failure *failure);
/* What keeper_keep() gave, which then lies there no longer. False: there is nothing, or (with a sentence) nothing of use. */
bool keeper_receive(struct tape *tape, struct failure *failure);

/* -- in case there is none ------------------------------------------------------------------------------------------ */

enum { KEEPER_MOST_FILES = 256 };

struct keeper_journal {
  struct succession succession;
  char *files[KEEPER_MOST_FILES]; /* that results are written to */
  unsigned file_count;
};

/* What a process leaves that is killed. */
struct keeper_pulse {
  int64_t last;     /* CLOCK_MONOTONIC ns of its last beat, */
  uint64_t clients; /* and how many it had then */
};

/* Replaces what lay there before. */
void keeper_note(struct keeper_journal *journal, struct listener *const *listeners, unsigned listener_count);
/* Says that this process still runs, with so many clients. */
void keeper_beat(int64_t now, uint64_t clients);
/* This process ends by itself: the next one takes nobody for killed. */
void keeper_end(void);
/* At the start: whether a process before this one ended without a word; `journal` and `pulse` are its own. From then on
 * keeper_was_writing() and keeper_take_listener() know of it. */
bool keeper_recover(struct keeper_journal *journal, struct keeper_pulse *pulse);
bool keeper_was_writing(const char *file);
/* Its listener at that path or address, or -1. */
int keeper_take_listener(const char *path);
/* Closes those that nobody took. */
void keeper_forget_found(void);

#endif
