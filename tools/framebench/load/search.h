/* Finds the highest rate at which a latency goal holds, by bisection. */
#ifndef FRAMED_FRAMEBENCH_LOAD_SEARCH_H
#define FRAMED_FRAMEBENCH_LOAD_SEARCH_H

#include "tools/framectl/common/problem.h"

struct load_goal {
  double share; /* of the frames, 0 to 1; 1: all */
  double us;    /* their latency must be below this */
};

/* Parses "p99<5ms", "p99.9<1ms", "max<=20ms". A latency equal to the bound fails in both forms. */
bool load_goal_parse(const char *text, struct load_goal *goal, struct problem *problem);

/* Sets `holds` to whether the goal holds at `rate`. False on a problem, which ends the search. */
typedef bool load_search_try(void *context, double rate, bool *holds, struct problem *problem);

/*
 * `top` is an upper limit of rates. `best` receives the highest tested rate that held. A tested rate at most `precision` (such
 * as 0.02) above it did not hold, unless it is `top`. `best` is 0 if even a 512th of `top` does not hold.
 */
bool load_search(double top, double precision, load_search_try *attempt, void *context, double *best, struct problem *problem);

#endif
