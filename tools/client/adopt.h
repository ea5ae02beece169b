/* A client on a connection that its caller made. Programs of this project only: not part of libframed's interface. */
#ifndef FRAMED_TOOLS_CLIENT_ADOPT_H
#define FRAMED_TOOLS_CLIENT_ADOPT_H

#include "tools/client/framed.h"

/*
 * As framed_connect(), but says HELLO over `fd`, a connected stream socket. The client owns `fd` from here on, also if this
 * fails. It cannot connect again, so that the end of the connection ends it.
 */
struct framed *framed_adopt(int fd, const struct framed_options *options, struct framed_error *error);

#endif
