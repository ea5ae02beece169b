/*
 * What the driver says of the devices (gpu/nvml.h), read on a worker every two seconds for as long as somebody asks, so that
 * neither the control loop nor who asks waits for a driver.
 */
#ifndef FRAMED_STATUS_DEVICES_H
#define FRAMED_STATUS_DEVICES_H

#include "daemon/status/status_ops.h"

struct devices;

/* `ops` stays the caller's. NULL if there is no memory. */
struct devices *devices_new(const struct status_ops *ops);
/* Reads nothing more. Idempotent; NULL is fine. */
void devices_stop(struct devices *devices);
/* After devices_stop(), with the loop at its end. NULL is fine; returns NULL. */
struct devices *devices_free(struct devices *devices);

/* NVML_FIGURES of the device at that place in order, not older than some seconds; NULL: nothing is known, or not yet. */
const double *devices_figures(struct devices *devices, unsigned index);

#endif
