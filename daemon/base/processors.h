/*
 * Whether the machine is short of processor time. Sources: how often threads wait (/proc/pressure/cpu), how much a hypervisor
 * takes away, and how much this process uses itself.
 */
#ifndef FRAMED_BASE_PROCESSORS_H
#define FRAMED_BASE_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

struct processors {                  /* zero before the first update */
  unsigned count, ready;             /* processors; threads that run or are ready */
  double waited;                     /* share of the last ten seconds in which some thread waited */
  double stolen;                     /* share of processor time taken by a hypervisor since the last update */
  double used, own;                  /* shares of processor time used, and used by this process */
  uint64_t total, idle, steal, mine; /* totals at the last update */
};

/* Updates from texts. `stat` is /proc/stat, `pressure` is /proc/pressure/cpu ("": the kernel has none), `mine` is this
 * process's time in ticks of `stat`. */
void processors_note(struct processors *processors, const char *stat, const char *pressure, uint64_t mine);
/* Updates from the kernel's current values. */
void processors_look(struct processors *processors);
/* True if other processes take the time that this process needs. */
bool processors_are_short(const struct processors *processors);

#endif
