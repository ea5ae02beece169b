/*
 * Whether the machine's processors are short: what the kernel says of who waits for one (/proc/pressure/cpu), what a hypervisor
 * took away, and how much of it this process uses itself.
 */
#ifndef FRAMED_BASE_PROCESSORS_H
#define FRAMED_BASE_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

struct processors {                  /* zero before the first look */
  unsigned count, ready;             /* processors; threads that have one or wait for one */
  double waited;                     /* share of the last ten seconds in which somebody waited for one */
  double stolen;                     /* share of their time that a hypervisor gave to others, since the look before, */
  double used, own;                  /* that was used, and that this process used */
  uint64_t total, idle, steal, mine; /* so far */
};

/* Looks again. `stat` is the text of /proc/stat, `pressure` that of /proc/pressure/cpu ("": the kernel has none), `mine` the
 * time of this process, in ticks of `stat`. */
void processors_note(struct processors *processors, const char *stat, const char *pressure, uint64_t mine);
/* The same with what the kernel says now. */
void processors_look(struct processors *processors);
/* Others take the time that this process would need. */
bool processors_are_short(const struct processors *processors);

#endif
