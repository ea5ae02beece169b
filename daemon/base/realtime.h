/*
 * How lanes get the time of processors, and whether memory stays where it is: the section `realtime`.
 *
 * Limits and control groups decide what a process may have, and not only its user; so it is tried, on the calling thread, which
 * afterwards is as it was before.
 */
#ifndef FRAMED_BASE_REALTIME_H
#define FRAMED_BASE_REALTIME_H

#include <pthread.h>
#include <stdbool.h>

#include "config/config.h"
#include "daemon/base/failure.h"

/* Whether this process may have all of it. */
bool realtime_check(const struct config_realtime *realtime, struct failure *failure);
/* For the whole process, before there is much memory of it. */
bool realtime_lock(const struct config_realtime *realtime, struct failure *failure);
/* Gives one thread the policy, the priority and the processors that are configured. */
bool realtime_apply(const struct config_realtime *realtime, pthread_t thread, struct failure *failure);
/* How many processors lanes have; 0: the section does not say. */
unsigned realtime_processors(const struct config_realtime *realtime);

#endif
