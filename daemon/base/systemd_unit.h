/*
 * What a service's unit lets the service see and write, as systemd says, for whoever judges a configuration outside that
 * service. With systemd.c the only user of libsystemd.
 */
#ifndef FRAMED_BASE_SYSTEMD_UNIT_H
#define FRAMED_BASE_SYSTEMD_UNIT_H

#include <stdbool.h>

enum { UNIT_FOLDERS = 64 };

struct unit_rules { /* to clear */
  bool strict;      /* ProtectSystem=strict: nothing can be written but what stands in `writable` */
  bool private_tmp; /* PrivateTmp= */
  bool hides_homes; /* ProtectHome=, but for read-only */
  unsigned count;
  char *writable[UNIT_FOLDERS]; /* whole paths of folders and files: ReadWritePaths=, RuntimeDirectory= and its like */
};

/* False: systemd does not run here, or does not answer, or has no such unit. */
bool unit_rules_read(const char *unit, struct unit_rules *rules);
void unit_rules_clear(struct unit_rules *rules);

#endif
