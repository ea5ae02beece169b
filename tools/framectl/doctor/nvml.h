/*
 * What NVIDIA's management library says of the GPUs. It comes with the driver and is loaded where it is there, so that
 * framectl needs neither; its functions are called by the interface that NVIDIA keeps stable.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_NVML_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_NVML_H

#include <stdbool.h>

enum { NVML_GPUS = 16, NVML_TEXT = 96, NVML_PROCESSES = 32 };

/* Reasons for lower clocks that somebody can do something about. */
enum {
  NVML_POWER_CAP = 0x4,
  NVML_HARDWARE_SLOWDOWN = 0x8,
  NVML_SOFTWARE_THERMAL = 0x20,
  NVML_HARDWARE_THERMAL = 0x40,
  NVML_POWER_BRAKE = 0x80
};

struct nvml_gpu {
  char name[NVML_TEXT];
  char address[32]; /* "0000:18:00.0", as in /sys/bus/pci/devices; "": unknown */
  bool knows_throttling, knows_link, knows_persistence;
  unsigned long long throttling;                         /* bits as above, and others */
  unsigned generation, generation_max, width, width_max; /* of the PCIe link */
  bool persistent;
  bool knows_processes;
  unsigned process_count; /* that compute on it */
  unsigned processes[NVML_PROCESSES];
};

/* How many GPUs there are, up to NVML_GPUS; 0 with the reason in `why`. */
unsigned nvml_read(struct nvml_gpu gpus[NVML_GPUS], char why[NVML_TEXT]);

#endif
