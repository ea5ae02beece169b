/*
 * The fd store: the descriptor store of the service manager, where what outlives a process lies until the next one.
 *
 * At an orderly end everything goes there, as it goes over exec in a handover. For the end that comes without a word, all
 * descriptors lie there at all times, with a manifest that says what each of them is (a codec that is live; the image says how
 * far each is), a journal that says which files were being written, and a heartbeat that says until when.
 */
#ifndef FRAMED_STATE_FD_STORE_H
#define FRAMED_STATE_FD_STORE_H

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/base/failure.h"
#include "daemon/measure/history.h"
#include "daemon/state/codec.h"

#define FD_STORE_STATE "state" /* under which name the state of an orderly end lies in the fd store */

/* Whether there is a store. */
bool fd_store_is_there(void);

/* -- an orderly end ------------------------------------------------------------------------------------------------- */

/* Gives the codec and all descriptors on it to the store; then this process may end. */
bool fd_store_keep(const struct codec *codec, struct failure *failure);
/* What fd_store_keep() gave, or the manifest. False: there is nothing, or (with a sentence) nothing of use. Until
 * fd_store_release() it also stays in the store, for the next process if this one is killed before it has touched anything; but
 * not for ever. */
bool fd_store_receive(struct codec *codec, struct failure *failure);
/* From now on this process reads and writes what it received, so that it is of no use to any other. Idempotent. */
void fd_store_release(void);
/* The next image of this process receives the same: nothing of it was touched, and that image does not count as another
 * process. */
void fd_store_repeat(void);

/* -- in case there is none ------------------------------------------------------------------------------------------ */

enum { FD_STORE_MOST_FILES = 256 };

struct fd_store_file { /* that results are written to, */
  char *path;
  uint64_t result_bytes; /* with so many for each */
};

struct fd_store_journal {
  struct history history;
  struct fd_store_file files[FD_STORE_MOST_FILES];
  unsigned file_count;
};

/* What a process leaves that is killed. */
struct fd_store_heartbeat {
  int64_t last;     /* CLOCK_MONOTONIC ns of its last beat, */
  uint64_t clients; /* and how many it had then */
  uint64_t takers;  /* how many processes have received what it left; FD_STORE_SPENT: one of them has gone on from there */
};

#define FD_STORE_SPENT UINT64_MAX

/* What is on the manifest has changed, and fd_store_keep_manifest() is due. */
void fd_store_mark(void);
bool fd_store_is_marked(void);
/* Since this image of the process reads and writes from now on, what the image before it noted is of no use to anybody. */
void fd_store_spend_manifest(void);
/* Replaces what lay there before by a codec that is live and all descriptors on it; without `whole`, or where there is not room
 * for all, by its listening sockets alone. */
void fd_store_keep_manifest(const struct codec *manifest, bool whole);
/* fd_store_keep_manifest() is due once more if something of the manifest could not be said. True: so is fd_store_note(). */
bool fd_store_try_again(void);
/* The same for the journal, which is for a process that can make nothing of the manifest. */
void fd_store_note(struct fd_store_journal *journal);
/* The file of a socket was made, and no pipeline uses it yet: a process after this one removes it. From any thread; only one at
 * a time is at such files. A file that there is no room to note stays behind. */
void fd_store_note_new_file(const char *path, const struct stat *made);
/* A pipeline uses the file of that socket, or it is gone. */
void fd_store_forget_new_file(const char *path);
/* Says that this process still runs, with so many clients. */
void fd_store_beat(int64_t now, uint64_t clients);
/* Takes back everything that lies there, also what was received. */
void fd_store_withdraw(void);
/* This process ends by itself: the next one takes nobody for killed. */
void fd_store_end(void);
/* What lies there by now, for the next image of this process. */
void fd_store_pass(struct codec *codec);

/* -- after the other kind of end: fd_recall.c, as is fd_store_receive() ---------------------------------------------- */

/* Whether a process before this one ended without a word; `journal` and `heartbeat` are its own. From then on
 * fd_store_was_writing() and fd_store_take_listener() know of it. */
bool fd_store_recover(struct fd_store_journal *journal, struct fd_store_heartbeat *heartbeat);
/* The heartbeat alone, where the manifest tells the rest. */
struct fd_store_heartbeat fd_store_last_heartbeat(void);
/* Whether a process before this one was killed. */
bool fd_store_was_killed(void);
/* Whether that process may have left the file with a part of a result at its end; `result_bytes`: of a whole one, or 0. */
bool fd_store_was_writing(const char *file, uint64_t *result_bytes);
/* This process ends without having made anything of it: the next one is to find it. */
void fd_store_recall_again(void);
/* This process executes itself anew, without the journal, but files are to be looked after all the same. False: no memory to
 * pass that on. */
bool fd_store_expect_dirty(void);
/* That process's listener at the path, or -1; `passed`: whether the manager passes it at every start. */
int fd_store_take_listener(const char *path, bool *passed);
/* The same for an address of TCP. Its listeners elsewhere are closed: they may be in the way of a socket at this address. */
int fd_store_take_listener_at(const struct sockaddr *address, socklen_t length);
/* A listener of that process, for fd_store_take_listener() to give. */
void fd_store_found(int fd, bool passed);
/* The same for all in this codec that nobody has taken. */
void fd_store_find_listeners(struct codec *codec);
/* This process serves: listeners that nobody took are closed, and its files are its own. */
void fd_store_forget_last(void);

#endif
