/*
 * Makes Ctrl-C and SIGTERM readable from a descriptor, for commands that print a summary at the end. The first signal makes it
 * readable; the second ends the process.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_INTERRUPT_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_INTERRUPT_H

#include <stdbool.h>

/* Before this call interrupts end the process, and the descriptor is -1, which poll() ignores. False: no descriptor is free. */
bool interrupt_watch(void);
int interrupt_descriptor(void);
bool interrupt_came(void);

#endif
