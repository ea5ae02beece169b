/*
 * Whether standard output is a terminal that can draw a screen. It has its own file, since <term.h> defines words like `lines`
 * and `columns` as macros.
 */
#ifndef FRAMED_FRAMECTL_TERMINAL_H
#define FRAMED_FRAMECTL_TERMINAL_H

#include <stdbool.h>

/* True if TERM is known and its cursor can be moved. Call this before newterm(), which leaks memory for an unknown terminal. */
bool terminal_can_draw(void);

#endif
