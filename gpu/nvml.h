/*
 * What the driver says of a device: load, memory, temperature, power, clocks, by NVML, a library that comes with the driver.
 *
 * It is looked for when it is needed and missed by nobody. Its calls go into the driver and may take milliseconds, or longer
 * on a device that fails: never on a lane, nor on the control loop.
 */
#ifndef FRAMED_GPU_NVML_H
#define FRAMED_GPU_NVML_H

#include <stddef.h>

#include "gpu/record/figures.h"

struct nvml;

/* NULL: the library is not there, or knows of no driver. */
struct nvml *nvml_open(void);
struct nvml *nvml_close(struct nvml *nvml); /* NULL is fine; returns NULL */

/* Of the device at that PCI address; NAN: the driver does not say. */
void nvml_read(const struct nvml *nvml, const char *address, double figures[NVML_FIGURES]);

/* Adds to a text what the driver knows to be wrong with the device at that address, if it knows anything. */
void nvml_add_trouble(const char *address, char *text, size_t size);

#endif
