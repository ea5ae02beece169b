/*
 * Tells the daemon over its status socket, where an operator looks, how links stand with their broker: each time with how long
 * that holds, so that the daemon forgets a link that has gone without a word.
 */
#ifndef FRAMED_TOOLS_LINK_TELL_H
#define FRAMED_TOOLS_LINK_TELL_H

#include "tools/link/link.h"

/* Tells of all `count` links that run; that it cannot is said when that begins, `silent` being where that is kept. With `gone`
 * that they end. */
void tell_links(const struct settings *settings, struct link *links, unsigned count, bool gone, bool *silent);

#endif
