/*
 * What the driver says of a device: load, memory, temperature, power, clocks, by NVML, a library that comes with the driver.
 *
 * It is looked for when it is needed and missed by nobody. Its calls go into the driver and may take milliseconds, or longer
 * on a device that fails: never on a lane, nor on the control loop.
 */
#ifndef FRAMED_GPU_NVML_H
#define FRAMED_GPU_NVML_H

#include <stddef.h>

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

struct nvml;

/* NULL: the library is not there, or knows of no driver. */
struct nvml *nvml_open(void);
struct nvml *nvml_close(struct nvml *nvml); /* NULL is fine; returns NULL */

/* Of the device at that PCI address; NAN: the driver does not say. */
void nvml_read(const struct nvml *nvml, const char *address, double figures[NVML_FIGURES]);

/* Adds to a text what the driver knows to be wrong with the device at that address, if it knows anything. */
void nvml_add_trouble(const char *address, char *text, size_t size);

#endif
