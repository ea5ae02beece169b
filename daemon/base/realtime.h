/*
 * The section `realtime`: scheduling policy, priority and processors of lanes, and locked memory.
 *
 * Limits and control groups decide what a process may do, not only its user. So the check tries each setting on the calling
 * thread and then restores it.
 */
#ifndef FRAMED_BASE_REALTIME_H
#define FRAMED_BASE_REALTIME_H

#include <pthread.h>
#include <stdbool.h>

#include "config/config.h"
#include "daemon/base/failure.h"

/* Returns true if this process may use all of the settings. */
bool realtime_check(const struct config_realtime *realtime, struct failure *failure);
/* For the whole process; call it before the process has much memory. */
bool realtime_lock(const struct config_realtime *realtime, struct failure *failure);
/* Applies policy, priority and processors to one thread. */
bool realtime_apply(const struct config_realtime *realtime, pthread_t thread, struct failure *failure);
/* Number of processors configured for lanes; 0: not configured. */
unsigned realtime_processors(const struct config_realtime *realtime);

#endif
