/* Checks whether the daemon's sockets and the servers of a configuration are reachable. */
#ifndef FRAMED_TOOLS_LINK_REACH_H
#define FRAMED_TOOLS_LINK_REACH_H

#include "tools/link/settings.h"

/*
 * Prints a line to stderr for each unreachable one, with the reason. Takes two seconds a server at most, plus name look-ups. It
 * connects to no socket of the daemon, and changes nothing on a server.
 */
void reach_all(const struct settings *settings);

#endif
