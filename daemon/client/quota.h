/*
 * What each user has of the daemon: sessions and readers, and the memory that they take, against the configuration's `limits`.
 *
 * A charge is a value inside its holder, by which it is also given back. Users are known as long as they have something.
 * Control loop only.
 */
#ifndef FRAMED_CLIENT_QUOTA_H
#define FRAMED_CLIENT_QUOTA_H

#include "config/config.h"

struct quota;
struct quota_user;

enum quota_kind { QUOTA_SESSION, QUOTA_READER, QUOTA_KINDS };

struct quota_charge { /* all zero: none */
  struct quota_user *user;
  enum quota_kind kind;
  bool left; /* the client has left, and only its memory still counts */
  uint64_t bytes;
};

enum { QUOTA_PROBLEM = 160 };

struct quota *quota_new(void); /* NULL if there is no memory */
/* Every charge must have been given back. NULL is fine; returns NULL. */
struct quota *quota_free(struct quota *quota);
/* For charges from now on; what users have by now stays theirs. */
void quota_limit(struct quota *quota, const struct config_limits *limits);

/* One session or reader of so many bytes more. False if the user may not have it: `problem` says why. */
bool quota_charge(struct quota *quota, uid_t user, enum quota_kind kind, uint64_t bytes, struct quota_charge *charge,
                  char problem[QUOTA_PROBLEM]);
/* The client that was charged for has left; its memory counts until quota_release(). Idempotent. */
void quota_leave(struct quota_charge *charge);
void quota_release(struct quota_charge *charge); /* idempotent */

#endif
