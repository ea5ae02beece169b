/*
 * Which of several devices has failed.
 *
 * The driver ends all devices of a process with one of them, and any of these may be the first of which a call fails. But it
 * notes an error of the one that is at fault, and a thread listens to that.
 */
#ifndef FRAMED_GPU_BLAME_H
#define FRAMED_GPU_BLAME_H

#include <stdbool.h>

struct blame;

/* Listens to errors of the devices at these PCI addresses, which stay; empty: there is none. NULL: there is no memory. */
struct blame *blame_new(const char *const addresses[], unsigned count);
struct blame *blame_free(struct blame *blame); /* NULL is fine; returns NULL */

/* After a call has failed, on any of them: which one the driver blames, in the order of the addresses, and its number for what
 * that was. Waits some ms for it, but for no driver that does not answer. False: it blames none. */
bool blame_ask(struct blame *blame, unsigned *device, unsigned *xid);

#endif
