/*
 * All communication with systemd; with systemd_unit.c the only user of libsystemd. Every call does nothing if systemd did not
 * start the daemon.
 */
#ifndef FRAMED_BASE_SYSTEMD_H
#define FRAMED_BASE_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* None of these waits. systemd_flush() runs every few seconds and sends what systemd did not take at once, unless a newer
 * message replaced it. A watchdog message is not repeated, because a late one is worthless. */
void systemd_flush(void);
void systemd_ready(const char *status);
void systemd_status(const char *status);
void systemd_reloading(void); /* with MONOTONIC_USEC; systemd_ready() ends it */
void systemd_stopping(const char *status);
void systemd_watchdog(void);
/* Interval in ns in which systemd expects systemd_watchdog(); 0: no watchdog. */
int64_t systemd_watchdog_interval(void);
/* True if the watchdog is active already: this process has been ready, in this image or an earlier one. */
bool systemd_watches(void);

/* Takes the listening socket whose FileDescriptorName= is `name`, or else whose address is `path`. Each is taken once; -1: not
 * found. systemd_unclaimed() names the first passed socket that nobody took, or NULL. */
int systemd_take_listener(const char *name, const char *path);
const char *systemd_unclaimed(void);
/* True if systemd passed any sockets to this image or an earlier one. It passes them again only at the next start, and until
 * then listens on them itself. */
bool systemd_has_passed(void);

/* -- the descriptor store: descriptors there survive this process, named by a kind and a number ------------------------- */

/* More names do not fit into LISTEN_FDNAMES, and then no program could be started. */
enum { SYSTEMD_MOST_KEPT = 8192 };

/* Capacity of the unit's store ($FDSTORE, which newer versions set themselves); 0: it has none. */
unsigned systemd_keeps(void);
/* Stores a descriptor, or removes it again. Waits until systemd has room for the message. Returns false if it could not be
 * sent. There is no answer: see systemd_has_read(). */
bool systemd_keep(int fd, const char *kind, uint64_t number);
bool systemd_forget(const char *kind, uint64_t number);
/* Before exec: passes unsent messages and the list of passed sockets to the next program. Returns false without memory; then
 * the program must not be executed. */
bool systemd_pass_on(void);
/* Waits at most five seconds until systemd has read all earlier messages. */
bool systemd_has_read(void);
/* Takes a stored descriptor of this kind, with its number. -1: no more. */
int systemd_take_kept(const char *kind, uint64_t *number);
/* Before exec: passes all sockets that this program got and that are open. Returns false without any socket. */
bool systemd_pass_again(void);
/* Undoes systemd_pass_again() if the program is not executed. */
void systemd_pass_nothing(void);

/* True if stderr is the journal. The other call writes one entry and returns false if the journal did not take it; it never
 * waits. */
bool systemd_has_journal(void);
bool systemd_journal(const struct iovec *fields, int count);

#endif
