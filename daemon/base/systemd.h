/*
 * Everything the daemon says to systemd and takes from it; with systemd_unit.c the only user of libsystemd. Each call does
 * nothing where the daemon was not started by systemd.
 */
#ifndef FRAMED_BASE_SYSTEMD_H
#define FRAMED_BASE_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* None of these waits: systemd_flush(), which is called every few seconds, tries again what systemd did not take at once,
 * unless something said later has replaced it. A sign of life is not tried again, since a late one is none. */
void systemd_flush(void);
void systemd_ready(const char *status);
void systemd_status(const char *status);
void systemd_reloading(void); /* with MONOTONIC_USEC; systemd_ready() ends it */
void systemd_stopping(const char *status);
void systemd_watchdog(void);
/* Interval in which systemd wants to hear systemd_watchdog(), in ns; 0: it does not. */
int64_t systemd_watchdog_interval(void);
/* Whether systemd watches for signs of life already: this process has been ready, in this image or in one before. */
bool systemd_watches(void);

/* Takes the listening socket whose FileDescriptorName= is `name` (or, failing that, whose address is `path`). Each is
 * taken once; -1: there is none. systemd_unclaimed() then names the first passed socket nobody took, or NULL. */
int systemd_take_listener(const char *name, const char *path);
const char *systemd_unclaimed(void);
/* Whether systemd passed any sockets, to this image of the process or to one before. It passes them again at the next start,
 * and only there: until then it listens at their addresses itself. */
bool systemd_has_passed(void);

/* -- the descriptor store: what lies there survives this process, by a kind and a number -------------------------------- */

/* More names than these do not fit into LISTEN_FDNAMES, and nothing could be started with them. */
enum { SYSTEMD_MOST_KEPT = 8192 };

/* For how many descriptors the unit has one ($FDSTORE, which newer versions set by themselves); 0: it has none. */
unsigned systemd_keeps(void);
/* Puts one there, or takes it away again; waits until systemd has room for the message. False: it could not be sent. No answer
 * comes: see systemd_has_read(). */
bool systemd_keep(int fd, const char *kind, uint64_t number);
bool systemd_forget(const char *kind, uint64_t number);
/* For a program that is executed in place of this one: it says first what this one could not, and knows what was passed to this
 * one. False: there is no memory for that, and without it the program is not to be executed. */
bool systemd_pass_on(void);
/* Waits until systemd has read everything up to here, for at most five seconds. */
bool systemd_has_read(void);
/* Takes a descriptor that was kept of this kind, with its number. -1: there is no other. */
int systemd_take_kept(const char *kind, uint64_t *number);
/* For a program that is executed in place of this one: it is passed all that this one was and that is open. False: that was
 * nothing. */
bool systemd_pass_again(void);
/* The program for which systemd_pass_again() prepared is not executed after all. */
void systemd_pass_nothing(void);

/* Whether stderr is the journal, and one entry to it. False: the journal did not take it, and nobody waits for it. */
bool systemd_has_journal(void);
bool systemd_journal(const struct iovec *fields, int count);

#endif
