#include "tools/framebench/load/search.h"

#include "config/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(const char *text, struct problem *problem) {
  return problem_set(problem, EXIT_STATUS_USAGE, "say it like p99<5ms, p99.9<800us or max<20ms (in quotes, for the shell)",
                     "--search does not take '%s'", text);
}

bool load_goal_parse(const char *text, struct load_goal *goal, struct problem *problem) {
  const char *less = strchr(text, '<'), *unit;
  char what[16];
  double percent = 100;
  int64_t ns;
  if (!less || (size_t)(less - text) >= sizeof what) {
    return refuse(text, problem);
  }
  snprintf(what, sizeof what, "%.*s", (int)(less - text), text);
  if (strcmp(what, "max") != 0 && (what[0] != 'p' || units_number(what + 1, &percent) != UNITS_OK)) {
    return refuse(text, problem);
  }
  const char *bound = less + (less[1] == '=' ? 2 : 1);
  if (!(percent > 0 && percent <= 100) || units_duration(bound, &ns, &unit) != UNITS_OK || ns <= 0) {
    return refuse(text, problem);
  }
  *goal = (struct load_goal){percent / 100, (double)ns / 1e3};
  return true;
}

/* Halves the rate until it holds. `*low` is that rate (0: none), and `*high` the lowest rate that does not hold. */
static bool descend(double top, load_search_try *attempt, void *context, double *low, double *high, struct problem *problem) {
  *low = 0;
  *high = INFINITY;
  for (int halvings = 0; halvings < 10; halvings++) {
    double rate = ldexp(top, -halvings);
    bool holds;
    if (!attempt(context, rate, &holds, problem)) {
      return false;
    }
    if (holds) {
      *low = rate;
      return true;
    }
    *high = rate;
  }
  return true;
}

bool load_search(double top, double precision, load_search_try *attempt, void *context, double *best, struct problem *problem) {
  double low, high;
  if (!descend(top, attempt, context, &low, &high, problem)) {
    return false;
  }
  while (low > 0 && isfinite(high) && high > low * (1 + precision)) {
    double rate = (low + high) / 2;
    bool holds;
    if (!attempt(context, rate, &holds, problem)) {
      return false;
    }
    *(holds ? &low : &high) = rate;
  }
  *best = low;
  return true;
}
