/*
 * fault: passes frames on, but strikes some of them: an illegal access, a kernel that never ends, or a delay; or
 * with `lost` the end of its device for good, if that is one of those whose numbers stand in the file that FRAMED_FAULT_DEVICES
 * names, none of which can be opened.
 *
 * It exists in test builds only (FRAMED_FAULTS). It strikes frame `at`, and every `every`th one after that, also when that runs
 * again unless `again` says no; frames that warm a program up are spared, so that a session starts whatever `at` says. Only
 * where FRAMED_FAULT_WARM_UPS names a file, one such frame is struck for each byte in it, which takes the byte away.
 */
#ifndef FRAMED_TESTS_FAULT_FAULT_H
#define FRAMED_TESTS_FAULT_FAULT_H

#include "gpu/stage.h"

enum fault_kind { FAULT_ILLEGAL, FAULT_HANG, FAULT_DELAY, FAULT_LOST };

struct fault_constants {
  enum fault_kind kind;
  uint64_t at, every; /* every 0: only the frame `at` */
  uint64_t delay_ns;
  bool again; /* frames that run again after a fault, too */
};

extern const struct stage_descriptor fault_stage;

/* Whether this frame warms a program up, and a byte was there for it. */
bool fault_strikes_warm_up(uint64_t sequence);

/* In backends.c: whether the file that FRAMED_FAULT_DEVICES names has the device's number in it, as one of several words. */
bool gpu_fault_has_lost(unsigned device);

/* How the CPU backend is struck: called on a worker, in run(); without effect elsewhere. */
void cpu_fault_illegal(void); /* the device is dead: no frame on it is ever done or told */
void cpu_fault_lost(void);    /* the same, if gpu_fault_has_lost() names its device */
void cpu_fault_hang(void);    /* the frame stays on its stream until its program is freed */

int fault_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

STAGE_INLINE bool fault_strikes(struct fault_constants constants, uint64_t sequence, bool again) {
  if ((again && !constants.again) || sequence == STAGE_WARM_UP || sequence < constants.at) {
    return false;
  }
  uint64_t distance = sequence - constants.at;
  return distance == 0 || (constants.every > 0 && distance % constants.every == 0);
}

#endif
