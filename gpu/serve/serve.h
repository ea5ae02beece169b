/*
 * The room serve/: what makes a process a worker. It has one device, and runs the programs that the daemon asks for on it.
 *
 *   main.c     the control socket: a thread for each call
 *   calls.c    what a call does: chains, models, memory, programs
 *   objects.c  what was made for the daemon, by numbers
 *   arenas.c   the memory of slots
 *   reset.c    what stays when another image of the daemon follows
 *   lines.c    frames: a thread for each of the daemon's lanes
 *   rung.c     frames that a lane gives to a kernel that stays
 *   counts.c   what the daemon may read at any time
 *   end.c      the end, and shared memory
 *
 * A worker trusts the daemon, and the daemon trusts no worker. It never waits for the daemon: when the control socket closes,
 * it ends at once.
 */
#ifndef FRAMED_GPU_SERVE_SERVE_H
#define FRAMED_GPU_SERVE_SERVE_H

#include "gpu/record/messages.h"
#include "gpu/record/pages.h"

/* -- end.c ----------------------------------------------------------------------------------------------------------- */

/* Says why on the control socket and ends the process. Any thread. */
_Noreturn void serve_end(const struct gpu_error *error);
/* The same, if the device is dead. */
void serve_end_if_lost(const struct gpu_device *device);
void *serve_map(int descriptor, size_t bytes); /* closes it; NULL: it is too short, or cannot be mapped */

/* -- calls.c -------------------------------------------------------------------------------------------------------- */

/* Does what the request says and packs the answer, with descriptors to go with it. Blocks; any thread. */
struct serve_answer {
  struct pack pack;
  int descriptors[WORKER_MOST_FILES]; /* closed by what they belong to */
  unsigned count;
};
void serve_call(enum worker_call call, struct worker_message *request, struct serve_answer *answer);

/* -- objects.c ------------------------------------------------------------------------------------------------------ */

enum object_kind { OBJECT_NONE, OBJECT_MODEL, OBJECT_CHAIN, OBJECT_ARENA, OBJECT_PROGRAM };

uint64_t objects_add(enum object_kind kind, void *object); /* 0: there is no memory */
void *objects_find(enum object_kind kind, uint64_t id);    /* NULL: there is none of that kind */
void *objects_take(uint64_t id, enum object_kind *kind);   /* it is no longer there */
void *objects_take_any(enum object_kind kind);             /* NULL: there is none of that kind */

/* -- arenas.c ------------------------------------------------------------------------------------------------------- */

struct arena;

/* Maps and registers memory, unless it was set aside. Takes the descriptor. NULL with an error. */
struct arena *arenas_take(struct gpu_device *device, int descriptor, size_t bytes, struct gpu_error *error);
void arenas_drop(struct arena *arena);
void arenas_set_aside(struct arena *arena);
void arenas_drop_aside(void);
/* NULL: those bytes are not in the arena of that number. */
void *arenas_place(uint64_t id, uint64_t offset, size_t bytes);

/* -- reset.c -------------------------------------------------------------------------------------------------------- */

typedef void reset_drop(enum object_kind kind, void *object);
/* Drops all programs, which waits for their frames, and ends all lanes' threads. Sets the rest aside. */
void serve_reset(reset_drop *drop);
void serve_end_reset(void); /* gives back what was set aside and not asked for again */

/* -- lines.c -------------------------------------------------------------------------------------------------------- */

struct served; /* a program */

/* The memory and the eventfd are taken. False: with an error. */
bool lines_open(unsigned number, const int descriptors[3], struct gpu_error *error);
/* The descriptors of the page and of the mailbox (-1: there is none) are taken. NULL with an error. */
struct served *lines_add(const struct worker_program *setup, struct gpu_device *device, const struct gpu_chain *chain,
                         const struct gpu_buffers *buffers, const int descriptors[2], struct gpu_error *error);
const struct gpu_program *lines_program(const struct served *served);
/* Waits for frames that still run; none comes any more. */
void lines_remove(struct served *served);
/* Ends the threads of all lanes, which have no program any more. */
void lines_close(void);

/* -- counts.c ------------------------------------------------------------------------------------------------------- */

bool counts_open(struct gpu_device *device, int page, struct gpu_error *error);
/* The place of a model's counts, which are kept until it is let go of as often. WORKER_MODELS: there is none left. */
unsigned counts_hold(struct model *model);
void counts_let_go(struct model *model);
/* Brings the counts up to date at once. */
void counts_write(void);

#endif
