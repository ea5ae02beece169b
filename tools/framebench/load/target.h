/*
 * The daemon under load: the sockets of its pipelines, the fates of their frames, and its processor time.
 *
 * Frames and fates are differences of the daemon's own ledger, so no other client should use these pipelines meanwhile.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_TARGET_H
#define FRAMED_FRAMEBENCH_LOAD_TARGET_H

#include "daemon/measure/ledger.h"
#include "tools/framebench/load/frames.h"
#include "tools/framectl/common/problem.h"

#include <jansson.h>
#include <sys/types.h>

enum { LOAD_NAME = 65, LOAD_PATH = 108, LOAD_MAX_PIPELINES = 1024 };

struct load_pipeline {
  char name[LOAD_NAME];
  char source[LOAD_PATH];
  char sink[LOAD_PATH]; /* empty: results come back on the producer's connection */
  struct load_form in, out;
  bool native; /* in both directions */
};

struct load_target {
  char socket[LOAD_PATH]; /* the status socket */
  pid_t pid;
  json_t *daemon; /* its description for a document */
  struct load_pipeline *pipelines;
  unsigned count;
};

struct load_ledger { /* of one pipeline, or a difference of two ledgers */
  uint64_t in, in_flight, missed, fates[FATE_COUNT];
  uint64_t clients, readers; /* connected now */
};

struct load_cpu { /* of the whole process, in seconds */
  double user, system;
};

/* Reads the named pipelines from the daemon at `socket`; all of them if `count` is 0. */
bool load_target_open(struct load_target *target, const char *socket, const char *const *names, unsigned count,
                      struct problem *problem);
void load_target_close(struct load_target *target);

/* Reads the ledger of each pipeline into `ledgers`. */
bool load_target_look(const struct load_target *target, struct load_ledger *ledgers, struct problem *problem);
/* The difference from `before` to `after`. */
struct load_ledger load_ledger_since(const struct load_ledger *before, const struct load_ledger *after);
uint64_t load_ledger_dropped(const struct load_ledger *ledger); /* all fates except emitted */

/* False if the process has ended or /proc is not readable. */
bool load_cpu_read(pid_t pid, struct load_cpu *cpu);

#endif
