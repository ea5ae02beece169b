/*
 * Ctrl-C and SIGTERM as something to wait for, for commands that have a last word. The first one makes a descriptor readable;
 * one more ends the process, as it would without this.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_INTERRUPT_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_INTERRUPT_H

#include <stdbool.h>

/* Until then interrupts end the process, and the descriptor is -1, which poll() passes over. False: no descriptor is left. */
bool interrupt_watch(void);
int interrupt_descriptor(void);
bool interrupt_came(void);

#endif
