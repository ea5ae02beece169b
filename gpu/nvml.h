/*
 * What the driver says of a device: load, memory, temperature, power, clocks, by NVML, a library that comes with the driver.
 *
 * It is looked for when it is needed and missed by nobody. Its calls go into the driver and may take milliseconds, or longer
 * on a device that fails: never on a lane, nor on the control loop.
 */
#ifndef FRAMED_GPU_NVML_H
#define FRAMED_GPU_NVML_H

#include <stdbool.h>
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

/* From now on the driver tells of errors of the devices at these addresses (empty: none), NVML_MOST at most. False: of none of
 * them. */
bool nvml_listen(struct nvml *nvml, const char *const addresses[], unsigned count);

enum { NVML_MOST = 64, NVML_NOBODY = 0xFFFF };

struct nvml_error {
  unsigned device; /* whose it is, in the order of the addresses; NVML_NOBODY: there was none, or it has another cause */
  unsigned xid;    /* the driver's number for what it was */
};

/* Waits so long for the next error. False: the driver tells of no more. */
bool nvml_wait(const struct nvml *nvml, unsigned ms, struct nvml_error *error);

#endif
