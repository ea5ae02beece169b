/*
 * The image: what this process works on and another one may go on with, in memory that outlives it.
 *
 * Pipelines, sessions, sinks, readers and what belongs to them are made in records of one sparse memfd, and worked on there:
 * nothing is written a second time, whether or not anybody keeps the memory. The next process gets it by exec or from the
 * service manager, maps it beside its own, and adopts each object: it checks what it finds, takes what is no pointer, and sets
 * its own pointers. That is the same whether this process ended in order or was killed.
 *
 * Who owns a record sets its mark before a read or a write, and before a change of several words that contradict each other
 * meanwhile. The stores of one thread are seen in their order by whoever maps the memory later, so a record without a mark is
 * whole. The memory is never registered with a device, since a wild kernel can write what is.
 */
#ifndef FRAMED_STATE_IMAGE_H
#define FRAMED_STATE_IMAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum image_kind {
  IMAGE_FREE,
  IMAGE_STATE,
  IMAGE_TABLE,
  IMAGE_SESSION,
  IMAGE_SINK,
  IMAGE_READER,
  IMAGE_SHARED_READER,
  IMAGE_PENDING,
  IMAGE_ROOM,
  IMAGE_PIPELINE,
  IMAGE_INPUTS,
  IMAGE_PRODUCERS,
  IMAGE_OUTPUTS,
  IMAGE_PLACE,
  IMAGE_HANDSHAKES,
  IMAGE_HANDSHAKE,
  IMAGE_SERVER,
  IMAGE_ENGINE
};

/* What a process leaves that is killed. */
struct image_heartbeat {
  int64_t last;     /* CLOCK_MONOTONIC ns of its last beat; 0: it ended by itself */
  uint64_t clients; /* and how many it had then */
  uint64_t takers;  /* how many processes have received what it left */
};

/* For what the state is of use. */
enum image_use {
  IMAGE_TELLS,   /* it says what was, and nobody can go on from there */
  IMAGE_IS_LIVE, /* should its process be killed, another one goes on */
  IMAGE_IS_LEFT  /* it was written when nothing moved any more, and its process has ended */
};

struct image_front {
  struct image_heartbeat heartbeat;
  _Atomic(const void *) state, table; /* records, by which all others are found; NULL: none */
  _Atomic unsigned char use;          /* enum image_use */
};

enum { IMAGE_FRONT = 4096 }; /* where it lies */

/* -- this process's ------------------------------------------------------------------------------------------------- */

/* [any thread that may wait] A record of so many bytes, all zero. NULL: there is no memory. */
void *image_new(enum image_kind kind, size_t bytes);
void *image_free(void *record); /* NULL is fine; returns NULL */
int image_fd(void);             /* to be kept; -1: it does not outlive this process */
/* When it was made, in CLOCK_MONOTONIC ns: no other image of this boot has the same. */
uint64_t image_born(void);
/* Whether another process under the limits of this one could have as much: only then may it take over. */
bool image_may_follow(void);
/* What stands before all records, for whoever finds the image. NULL: there is no memory. */
struct image_front *image_front(void);
/* [signal handler] A store of this process may have gone anywhere: nobody is to believe what lies here. */
void image_disown(void);

struct mark {
  _Atomic unsigned char set; /* any value but 0 */
};

/* [its owner's lane] Here the compiler keeps the order of stores, too. */
static inline void mark_set(struct mark *mark) {
  atomic_store_explicit(&mark->set, 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void mark_clear(struct mark *mark) {
  atomic_signal_fence(memory_order_seq_cst);
  atomic_store_explicit(&mark->set, 0, memory_order_relaxed);
}

static inline bool mark_is_set(const struct mark *mark) { return atomic_load_explicit(&mark->set, memory_order_relaxed) != 0; }

/* -- what a process before this one left ---------------------------------------------------------------------------- */

/* Maps the image of another process; takes the descriptor over. False: it is none of this version, or was disowned. One that
 * was disowned is there to read all the same, for what is checked as a whole. */
bool image_look_into(int fd);
uint64_t image_left_born(void); /* 0: none is there, or none of this version */
struct image_front *image_left_front(void);
int image_left_fd(void);    /* of that one, also if it was none; -1: there was none */
void image_look_away(void); /* idempotent */
/* The record that lay at this address in that process, if it is of this kind, and how many bytes it has; else NULL. What is
 * changed there is for whoever looks into that image next. */
void *image_left(const void *address, enum image_kind kind, size_t *bytes);
/* The same if it has so many bytes. */
void *image_left_at(const void *address, enum image_kind kind, size_t bytes);

/* Whether each of the bytes in which flags lie is one. No other value may ever be read as a flag. */
#define IMAGE_IS_FLAG(flag) (_Generic((flag), bool : *(const unsigned char *)&(flag)) <= 1)
/* Whether it can be a time: any two of those can be added and subtracted. */
static inline bool image_is_time(int64_t time) { return time >= 0 && time <= INT64_MAX / 2; }
/* Between two clocks. */
static inline bool image_is_shift(int64_t shift) { return shift >= -INT64_MAX / 4 && shift <= INT64_MAX / 4; }

#endif
