/*
 * The stage `fault` passes frames unchanged, but makes some of them fail: by an illegal access, an endless kernel or a delay.
 * `lost` ends its device permanently if the file named by FRAMED_FAULT_DEVICES has its number; such a device cannot be opened
 * again.
 *
 * It exists only in test builds (FRAMED_FAULTS). It hits frame `at` and every `every`th one after that. A frame that runs again
 * is hit again unless `again` is false. Warm-up frames are spared, so that sessions start with any `at`. But if
 * FRAMED_FAULT_WARM_UPS names a file, each byte of that file hits one warm-up frame and is removed.
 */
#ifndef FRAMED_TESTS_FAULT_FAULT_H
#define FRAMED_TESTS_FAULT_FAULT_H

#include "gpu/stage.h"

enum fault_kind { FAULT_ILLEGAL, FAULT_HANG, FAULT_DELAY, FAULT_LOST };

struct fault_constants {
  enum fault_kind kind;
  uint64_t at, every; /* every 0: only the frame `at` */
  uint64_t delay_ns;
  bool again; /* also frames that run again after a fault */
};

extern const struct stage_descriptor fault_stage;

/* Whether this is a warm-up frame, and the file had a byte to remove. */
bool fault_strikes_warm_up(uint64_t sequence);

/* In backends.c: whether the file named by FRAMED_FAULT_DEVICES has the device's number as one of its words. */
bool gpu_fault_has_lost(unsigned device);

/* The faults of the CPU backend. A worker calls them in run(); elsewhere they do nothing. */
void cpu_fault_illegal(void); /* the device is dead: none of its frames completes any more */
void cpu_fault_lost(void);    /* likewise, if gpu_fault_has_lost() is true for its device */
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
