/*
 * The checkpoint: what each lane notes of itself as it goes, in memory that a killed process leaves behind.
 *
 * A session, a sink and a reader have a record each. Its owner notes there how far it is, in two places by turns, so that one
 * whole note is there at every instant. It sets the record's mark before each read or write of its descriptor and clears it
 * with the note of the outcome, so that an unknown position is known to be unknown. Nothing is written where no service manager
 * would keep it: then nobody has a record, and marking and noting cost a comparison.
 *
 * The memory is a memfd, and sparse: a record that nobody has takes none.
 */
#ifndef FRAMED_STATE_CHECKPOINT_H
#define FRAMED_STATE_CHECKPOINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/state/codec.h"

enum {
  CHECKPOINT_RECORDS = 8192,
  RECORD_NOTE = 16 * 1024 - 64, /* bytes that a note may have, */
  RECORD_PREFAULTED = 6 * 1024  /* and in how many of them its owner's lane meets no page fault */
};

#define NOTE_BEGUN UINT64_MAX /* into which no damage turns a number by chance */

/* One of the two notes of a record. */
struct note {
  _Atomic uint64_t number; /* counts the record's notes from 1; 0: there is none here, NOTE_BEGUN: it is being written */
  uint64_t checksum;       /* of its bytes */
  uint32_t length;
  unsigned char bytes[RECORD_NOTE];
};

struct record {
  uint64_t serial;              /* of its owner, among all that ever were; 0: nobody has it */
  uint64_t last;                /* number of the last note */
  atomic_uint_least8_t touched; /* the mark: 1 or 0; any other value that is found there counts as 1 */
  struct record *next;          /* while nobody has it; means something to this process only */
  struct note notes[2];
};

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* [main thread] Makes the checkpoint of this process. False: it cannot be, and nobody gets a record. */
bool checkpoint_open(void);
/* Its descriptor, to be kept; -1: there is none. */
int checkpoint_fd(void);
/* [any thread that may wait] A record, or NULL. */
struct record *record_new(void);
struct record *record_free(struct record *record); /* NULL is fine; returns NULL */
/* What finds the record later; 0 for NULL. */
uint64_t record_name(const struct record *record);

/* [its owner's lane] From here on the position of its descriptor is unknown, until record_end() or record_untouch(). NULL is
 * fine. */
static inline void record_touch(struct record *record) {
  if (record) {
    atomic_store_explicit(&record->touched, 1, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
  }
}

/* [its owner's lane] Nothing came of it. */
static inline void record_untouch(struct record *record) {
  if (record) {
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&record->touched, 0, memory_order_release);
  }
}

/* [its owner's lane] Between them the note is put into the codec. A codec that breaks leaves the record without any note, and
 * touched. */
void record_begin(struct record *record, struct codec *codec);
void record_end(struct record *record, const struct codec *codec);

/* -- reading, in the process after it --------------------------------------------------------------------------------- */

/* Looks into the checkpoint of another process; the descriptor stays the caller's. */
bool checkpoint_look_into(int fd);
void checkpoint_look_away(void); /* idempotent */

enum record_state {
  RECORD_UNKNOWN, /* nothing is known: not even whether its descriptor was touched */
  RECORD_EMPTY,   /* nothing was noted yet, and nothing done */
  RECORD_TOUCHED, /* the codec has the last note, if `noted`, after which the descriptor was read or written */
  RECORD_NOTED    /* the codec has where everything is */
};

/* The record of that name; `codec` is the caller's to clear in any case. */
enum record_state checkpoint_read(uint64_t name, struct codec *codec, bool *noted);

#endif
