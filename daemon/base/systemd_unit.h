/*
 * The files that a service's unit lets the service see and write, according to systemd. For checking a configuration outside
 * the service. With systemd.c the only user of libsystemd.
 */
#ifndef FRAMED_BASE_SYSTEMD_UNIT_H
#define FRAMED_BASE_SYSTEMD_UNIT_H

#include <stdbool.h>

enum { UNIT_FOLDERS = 64 };

struct unit_rules { /* free with unit_rules_clear() */
  bool strict;      /* ProtectSystem=strict: only `writable` can be written to */
  bool private_tmp; /* PrivateTmp= */
  bool hides_homes; /* ProtectHome=, except read-only */
  unsigned count;
  char *writable[UNIT_FOLDERS]; /* absolute paths of folders and files: ReadWritePaths=, RuntimeDirectory= and similar */
};

/* Returns false if systemd does not run here, does not answer, or has no such unit. */
bool unit_rules_read(const char *unit, struct unit_rules *rules);
void unit_rules_clear(struct unit_rules *rules);

#endif
