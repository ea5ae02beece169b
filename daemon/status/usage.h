/*
 * What the process has of the machine: for status and metrics, so that a leak shows long before it hurts.
 *
 * On a healthy daemon none of these figures grows with the number of frames or of clients that came and went.
 */
#ifndef FRAMED_STATUS_USAGE_H
#define FRAMED_STATUS_USAGE_H

#include <stddef.h>

struct usage {
  size_t resident_bytes;             /* memory of the process, pinned memory included; 0: the kernel does not say */
  size_t descriptors;                /* open files; likewise */
  size_t pinned_bytes, device_bytes; /* registered with devices, and allocated on them */
};

/* Asks the kernel for the first two. For the control loop: it may take some tens of microseconds. */
void usage_of_process(struct usage *usage);

#endif
