/*
 * What each user has of the daemon: sessions, and the memory that they take, against the configuration's `limits`.
 *
 * A charge is a value inside its holder, by which it is also given back. Users are known as long as they have something.
 * Control loop only.
 */
#ifndef FRAMED_DAEMON_QUOTA_H
#define FRAMED_DAEMON_QUOTA_H

#include "config/config.h"

struct quota;
struct quota_user;

struct quota_charge { /* all zero: none */
  struct quota_user *user;
  uint64_t bytes;
};

enum { QUOTA_PROBLEM = 160 };

struct quota *quota_new(void); /* NULL if there is no memory */
/* Every charge must have been given back. NULL is fine; returns NULL. */
struct quota *quota_free(struct quota *quota);
/* For charges from now on; what users have by now stays theirs. */
void quota_limit(struct quota *quota, const struct config_limits *limits);

/* One session of so many bytes more. False if the user may not have it: `problem` says why. */
bool quota_charge(struct quota *quota, uid_t user, uint64_t bytes, struct quota_charge *charge, char problem[QUOTA_PROBLEM]);
void quota_release(struct quota_charge *charge); /* idempotent */

#endif
