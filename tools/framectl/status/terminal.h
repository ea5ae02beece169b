/*
 * Whether standard output is a terminal that a screen can be drawn on. In a file of its own, since <term.h> takes words like
 * `lines` and `columns` for itself.
 */
#ifndef FRAMED_FRAMECTL_TERMINAL_H
#define FRAMED_FRAMECTL_TERMINAL_H

#include <stdbool.h>

/* The kind of the terminal, by TERM, is known, and its cursor can be moved. To be asked before newterm(), which loses memory
 * where the kind is not known. */
bool terminal_can_draw(void);

#endif
