/*
 * The image: the objects of this process in memory that outlives it, so that the next process can take over.
 *
 * Problem. The daemon must survive upgrades, restarts and kills without losing a connection or a frame. A killed process runs
 * no code at its end, so it cannot save anything. Writing a copy of the state on every change would be extra work of the lane
 * for every frame.
 *
 * Idea. The objects that matter live in records of one sparse memfd: server, engine, pipelines with their ends, sessions,
 * sinks, readers, clients in their handshake. They are used in place, so saving is no step of its own. The descriptor of the
 * memfd passes to the next process by exec or through the service manager's descriptor store. That process maps it next to its
 * own image and adopts each object: it checks every value, copies what is no pointer, and sets its own pointers. This is the
 * same after an orderly end and after a kill.
 *
 * Not in the image. The slots' frames are in arenas, memfds of their own that pass as descriptors. Connections and files pass
 * as descriptors, too (fd_table.h). Workers do not survive their daemon: an exec ends them first, and a kill of the daemon ends
 * them by the end of file on their control sockets. So frames that were RUNNING run again on new workers. The death of a worker
 * alone does not involve the image: its sessions stay as they are and wait for another worker (session/rewind.c). No worker
 * maps the image, and it is never registered with a device, because a faulty kernel can write to registered memory.
 *
 * Invariants.
 * - A slot's state and the end of a queue are one word each. Data is stored before the word that announces it.
 * - Other changes of several words, and every read and write of a descriptor, are enclosed by the owner's mark (mark_set()).
 *   After a kill, a record without a mark is consistent. A marked connection is closed, because nobody knows how many bytes
 *   moved.
 * - A later process sees the stores of one thread in program order, so compiler fences are enough.
 * - Every value is checked when it is adopted, so that a damaged image cannot crash the next process.
 * - After SIGSEGV, SIGBUS or SIGABRT the image is disowned: a wild store may have hit any record.
 * - Only a program with the same STATE_VERSION and the same layout takes over.
 *
 * Rejected. Earlier versions encoded the state into a separate record with checksums, and kept a journal of the files that were
 * being written. That needed an encoder and a decoder for each object.
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
  IMAGE_READER_ENTRY,
  IMAGE_HANDSHAKES,
  IMAGE_HANDSHAKE,
  IMAGE_SERVER,
  IMAGE_ENGINE
};

/* Left by a process that is killed. */
struct image_heartbeat {
  int64_t last;       /* CLOCK_MONOTONIC ns of its last heartbeat; 0: it ended by itself */
  uint64_t clients;   /* its clients at that time */
  uint64_t receivers; /* how many processes have received this image */
};

/* How the next process may use the state. */
enum image_use {
  IMAGE_IS_REPORT, /* as a report only: taking over is not possible */
  IMAGE_IS_LIVE,   /* taking over after a kill is possible */
  IMAGE_IS_LEFT    /* written when all lanes were parked; its process has ended */
};

struct image_front {
  struct image_heartbeat heartbeat;
  _Atomic(const void *) state, table; /* records from which all others are found; NULL: none */
  _Atomic unsigned char use;          /* enum image_use */
};

enum { IMAGE_FRONT = 4096 }; /* its offset in the image */

/* -- of this process ------------------------------------------------------------------------------------------------ */

/* [any thread that may block] A zeroed record. NULL without memory. */
void *image_new(enum image_kind kind, size_t bytes);
void *image_free(void *record); /* accepts NULL; returns NULL */
int image_fd(void);             /* to keep for the next process; -1: the image ends with this process */
/* CLOCK_MONOTONIC ns of its creation; unique since boot. */
uint64_t image_born(void);
/* True if another process under the same limits could have an image of this size. Only then it may take over. */
bool image_may_be_taken_over(void);
/* The part before all records. NULL without memory. */
struct image_front *image_front(void);
/* [signal handler] Declares the image invalid, because a wild store may have hit it. */
void image_disown(void);

struct mark {
  _Atomic unsigned char set; /* any value but 0 */
};

/* [its owner's lane] Signal fences keep the order of stores in the compiler. */
static inline void mark_set(struct mark *mark) {
  atomic_store_explicit(&mark->set, 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void mark_clear(struct mark *mark) {
  atomic_signal_fence(memory_order_seq_cst);
  atomic_store_explicit(&mark->set, 0, memory_order_relaxed);
}

static inline bool mark_is_set(const struct mark *mark) { return atomic_load_explicit(&mark->set, memory_order_relaxed) != 0; }

/* -- of the previous process ---------------------------------------------------------------------------------------- */

/* Maps the image of a previous process; takes over the descriptor. Returns false if it has another version or was disowned. A
 * disowned image can still be read, for data that has its own check. */
bool image_open_left(int fd);
uint64_t image_left_born(void); /* 0: no image, or another version */
struct image_front *image_left_front(void);
int image_left_fd(void);     /* its descriptor, even if it was not valid; -1: none */
void image_close_left(void); /* idempotent */
/* The record at this address of that process with its size, if it is of this kind; else NULL. Changes there are seen by the
 * next process that maps the image. */
void *image_left(const void *address, enum image_kind kind, size_t *bytes);
/* image_left() for a record of this size. */
void *image_left_at(const void *address, enum image_kind kind, size_t bytes);

/* Checks the byte of a bool. Any value but 0 and 1 must never be read as a bool. */
#define IMAGE_IS_FLAG(flag) (_Generic((flag), bool : *(const unsigned char *)&(flag)) <= 1)
/* Checks that sums and differences with other times do not overflow. */
static inline bool image_is_time(int64_t time) { return time >= 0 && time <= INT64_MAX / 2; }
/* Checks a difference of two clocks. */
static inline bool image_is_shift(int64_t shift) { return shift >= -INT64_MAX / 4 && shift <= INT64_MAX / 4; }

#endif
