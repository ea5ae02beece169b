/* Which name each thing has in the store; private to fd_store.c, which puts it there, and fd_recall.c, which finds it. */
#ifndef FRAMED_STATE_FD_NAMES_H
#define FRAMED_STATE_FD_NAMES_H

#include "daemon/state/fd_store.h"

#define STATE    FD_STORE_STATE
#define MANIFEST "roster-" /* and a number: the highest counts */
#define JOURNAL  "journal"
#define IMAGE    "image"
#define UNSURE   "unsure" /* while one journal follows another: any file may be dirty */

enum { NAME = 64, MOST_NEW_FILES = 64 };

/* The file at the path is still this one as long as all of this fits; the time is that of its making, since nobody writes to
 * it. */
struct new_file {
  char path[sizeof((struct sockaddr_un *)NULL)->sun_path]; /* empty: none */
  dev_t device;
  ino_t inode;
  struct timespec made;
};

/* What lies at the front of the image. */
struct fd_store_memory {
  struct fd_store_heartbeat heartbeat; /* first: all that others may know */
  struct new_file new_files[MOST_NEW_FILES];
};

/* Passes a journal through a codec, both ways. */
void fd_store_pass_journal(struct fd_store_journal *journal, struct codec *codec);

/* Says in the store that any file may be dirty until fd_store_note() has noted which. */
void fd_store_say_unsure(void);

/* fd_recall.c: the files of a journal as text, to free(); NULL: no memory. */
char *fd_store_list_dirty(const struct fd_store_journal *journal);
/* Whether such text has the file, or is none; then any file may be dirty, and `result_bytes` stays. */
bool fd_store_is_dirty(const char *lines, const char *file, uint64_t *result_bytes);

/* -- fd_received.c, as are fd_store_release() and fd_store_repeat(): what was received lies there ----------------------- */

/* Takes the manifest of this number out of the store. */
void fd_store_forget_manifest(uint64_t number);
/* A state was received; a manifest, the highest of which has this number (0: none); a heartbeat, by which so many have
 * received. */
void fd_received_state(void);
void fd_received_manifest(uint64_t number);
void fd_received_heartbeat(uint64_t takers);
/* Writes one of the numbers of the heartbeat: of this process or, until that has one, of the one before. */
void fd_store_write_beat(size_t offset, uint64_t number);
/* Leaves all of that to the next process, should this one be killed, if it is `of_use`; but not for ever, since it may be what
 * processes are killed for. */
void fd_received_leave(bool of_use);

#endif
