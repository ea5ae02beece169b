/* The parts of framebench limits; each adds its sections. */
#ifndef FRAMED_TOOLS_FRAMEBENCH_LIMITS_H
#define FRAMED_TOOLS_FRAMEBENCH_LIMITS_H

#include "tools/framebench/options.h"
#include "tools/framebench/results.h"

/* Sockets, memory and wake-ups of the host. Forks: before any use of CUDA. */
bool limits_host(struct results *results, const struct options *options, struct problem *problem);

#endif
