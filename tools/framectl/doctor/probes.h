/*
 * What makes a machine slower than it could be, read from /sys, /proc and NVIDIA's library. Each probe adds a finding in
 * any case: fine, better (it could be better), or unknown.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_PROBES_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_PROBES_H

#include <stdint.h>

#include "tools/framectl/doctor/findings.h"
#include "tools/framectl/doctor/nvml.h"

struct probe {
  const char *root; /* before /sys and /proc: "", or a folder of a test */
  int pid;          /* of the daemon; 0: unknown */
  struct findings *findings;
};

/* The governors of the processors. */
void probe_governor(const struct probe *probe);
/* The daemon's limit of locked memory, against the bytes that it pins. */
void probe_memlock(const struct probe *probe, uint64_t pinned);
/* Clocks, link and persistence of a GPU, and whether the daemon's threads may run far from it. */
void probe_gpu(const struct probe *probe, const struct nvml_gpu *gpu);
/* Whether the memory of the daemon's slots lies on a node of one of its GPUs. */
void probe_slots(const struct probe *probe, const struct nvml_gpu *gpus, unsigned count);

#endif
