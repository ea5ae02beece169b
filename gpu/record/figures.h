/* What a driver says of a device. */
#ifndef FRAMED_GPU_RECORD_FIGURES_H
#define FRAMED_GPU_RECORD_FIGURES_H

enum nvml_figure {
  NVML_LOAD, /* share of the last moments in which a kernel ran */
  NVML_MEMORY_USED,
  NVML_MEMORY_TOTAL, /* bytes */
  NVML_TEMPERATURE,  /* degrees Celsius */
  NVML_POWER,        /* W */
  NVML_CLOCK,
  NVML_MEMORY_CLOCK, /* Hz */
  NVML_FIGURES
};

#endif
