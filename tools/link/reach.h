/* What a check of the configuration tries to reach: the daemon's sockets, and the servers. */
#ifndef FRAMED_TOOLS_LINK_REACH_H
#define FRAMED_TOOLS_LINK_REACH_H

#include "tools/link/settings.h"

/* Says on stderr, a line each, what cannot be reached and why; takes two seconds a server at most, and what it takes to look
 * up its name. No socket of the daemon sees a client, and nothing is made or changed on a server. */
void reach_all(const struct settings *settings);

#endif
