#include "daemon/measure/overlap.h"

unsigned overlap_kernels(const struct overlap_work *work) {
  unsigned kernels = work->kernels > 0 ? work->kernels : 1;
  return kernels < OVERLAP_MAX_SLOTS ? kernels : OVERLAP_MAX_SLOTS;
}

double overlap_services(const double service[OVERLAP_ENGINES]) {
  return service[OVERLAP_H2D] + service[OVERLAP_KERNEL] + service[OVERLAP_D2H];
}

struct overlap_work overlap_settled(const struct overlap_work *work) {
  struct overlap_work settled = *work;
  double sum = overlap_services(work->service);
  if (work->slots != 1 || work->alone <= 0) {
    return settled;
  }
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    settled.service[engine] *= sum > work->alone ? work->alone / sum : 1;
    settled.succession[engine] = 0;
  }
  settled.turnaround = work->alone - overlap_services(settled.service) - work->host;
  return settled;
}

double overlap_sum(const struct overlap_work *work) {
  const struct overlap_work settled = overlap_settled(work);
  return overlap_services(settled.service);
}

double overlap_taken(const struct overlap_work *work, enum overlap_engine engine) {
  return work->succession[engine] > 0 ? work->succession[engine] : work->service[engine];
}

/* Time for which each of many frames occupies an engine. */
static double occupied(const struct overlap_work *work, enum overlap_engine engine) {
  return overlap_taken(work, engine) / (engine == OVERLAP_KERNEL ? overlap_kernels(work) : 1);
}

enum overlap_engine overlap_longest(const struct overlap_work *work) {
  enum overlap_engine longest = OVERLAP_H2D;
  for (enum overlap_engine engine = OVERLAP_KERNEL; engine < OVERLAP_ENGINES; engine++) {
    if (occupied(work, engine) > occupied(work, longest)) {
      longest = engine;
    }
  }
  return longest;
}

double overlap_period(const struct overlap_work *work) {
  double longest = occupied(work, overlap_longest(work));
  return longest > work->host ? longest : work->host;
}

double overlap_round(const struct overlap_work *work) {
  const struct overlap_work settled = overlap_settled(work);
  return overlap_services(settled.service) + settled.turnaround + settled.host;
}

double overlap_ideal_speedup(const struct overlap_work *work) {
  double longest = occupied(work, overlap_longest(work));
  return longest > 0 ? overlap_sum(work) / longest : 1;
}

double overlap_ratio(double wall, double sum) { return wall < sum ? 1 - wall / sum : 0; }
