/* The highest rate at which a promise about latency holds, found by halving. */
#ifndef FRAMED_FRAMEBENCH_LOAD_SEARCH_H
#define FRAMED_FRAMEBENCH_LOAD_SEARCH_H

#include "tools/framectl/common/problem.h"

struct load_goal {
  double share; /* of the frames, 0 to 1; 1: all of them */
  double us;    /* stay below this */
};

/* "p99<5ms", "p99.9<1ms", "max<=20ms": the bound itself counts as held in neither. */
bool load_goal_parse(const char *text, struct load_goal *goal, struct problem *problem);

/* Whether the goal holds at `rate`. False on a problem, which ends the search. */
typedef bool load_search_try(void *context, double rate, bool *holds, struct problem *problem);

/* `top`: a rate that nothing can exceed. `best` gets the highest rate tried that held, with one tried at most `precision`
 * (a share, such as 0.02) above it that did not, or `top`; 0 if even a 512th of `top` does not hold. */
bool load_search(double top, double precision, load_search_try *attempt, void *context, double *best, struct problem *problem);

#endif
