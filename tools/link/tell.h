/*
 * Tells the daemon over its status socket, where an operator looks, how links stand with their broker: each time with how long
 * that holds, so that the daemon forgets a link that has gone without a word.
 */
#ifndef FRAMED_TOOLS_LINK_TELL_H
#define FRAMED_TOOLS_LINK_TELL_H

#include "tools/link/fleet.h"

/* Tells of all links that run, and of those that have ended that they do. That it cannot is said when that begins, `silent`
 * being where that is kept. */
void tell_links(struct fleet *fleet, bool *silent);

#endif
