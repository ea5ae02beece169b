/*
 * Checks settings that slow a machine down, from /sys, /proc and NVIDIA's library. Each probe always adds a finding: fine,
 * better (it could be better), or unknown.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_PROBES_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_PROBES_H

#include <stdint.h>

#include "tools/framectl/doctor/findings.h"
#include "tools/framectl/doctor/nvml.h"

struct probe {
  const char *root; /* put before /sys and /proc: "", or a folder of a test */
  int pid;          /* of the daemon; 0: unknown */
  struct findings *findings;
};

void probe_governor(const struct probe *probe);
/* Compares the daemon's limit of locked memory to the bytes that it pins. */
void probe_memlock(const struct probe *probe, uint64_t pinned);
/* Checks the clocks, PCIe link and persistence of a GPU, and whether the daemon's threads may run on distant processors. */
void probe_gpu(const struct probe *probe, const struct nvml_gpu *gpu);
/* Checks whether the memory of the slots is on a node of one of the daemon's GPUs. */
void probe_slots(const struct probe *probe, const struct nvml_gpu *gpus, unsigned count);

#endif
