/*
 * Reads the state of the GPUs from NVIDIA's management library. The library is loaded at run time, since only machines with the
 * driver have it. Only functions of its stable interface are used.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_NVML_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_NVML_H

#include <stdbool.h>

enum { NVML_GPUS = 16, NVML_TEXT = 96, NVML_PROCESSES = 32 };

/* Reasons for lower clocks that a user can change. */
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
  unsigned long long throttling;                         /* the bits above, and others */
  unsigned generation, generation_max, width, width_max; /* of the PCIe link */
  bool persistent;
  bool knows_processes;
  unsigned process_count; /* those that compute on this GPU */
  unsigned processes[NVML_PROCESSES];
};

/* Returns the number of GPUs, up to NVML_GPUS; 0 with the reason in `why`. */
unsigned nvml_read(struct nvml_gpu gpus[NVML_GPUS], char why[NVML_TEXT]);

#endif
