/*
 * Reports the links' connections to the broker over the daemon's status socket, so that operators see them there. Each report
 * has a lifetime, after which the daemon forgets a link that died.
 */
#ifndef FRAMED_TOOLS_LINK_REPORT_H
#define FRAMED_TOOLS_LINK_REPORT_H

#include "tools/link/fleet.h"

/* Reports all running links, and the end of those that have stopped. A failed report is logged once; `silent` stores that. */
void report_links(struct fleet *fleet, bool *silent);

#endif
