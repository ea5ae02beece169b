/*
 * Quotas of users: sessions and readers, and the memory that they take, limited by the configuration's `limits`.
 *
 * Problem. Every client costs descriptors, memory that is pinned, and time of a lane. One user's clients must not use up what
 * other users need. A limit per connection does not help, because a user can connect many times.
 *
 * Idea. Each client is charged to the user whom the kernel reports for its socket (peer.h), before it gets anything. A charge
 * is a value inside the object that uses the resource: a producer or a reader. quota_charge() either grants all of it or
 * changes nothing.
 *
 * A client and its memory may end at different times. A producer with shared memory keeps its mapping after it left, and its
 * pages are in use until they go back to the kernel. So quota_leave() ends the charge for the client, and quota_release() ends
 * the charge for the memory. Without this a user could connect and leave again and again, and own much more memory than
 * allowed.
 *
 * Invariants.
 * - The sums of a user equal the charges that exist. A user is known only as long as it has a charge.
 * - Both calls are idempotent, so every way out of a holder may call them.
 * - Lower limits after a reload do not take anything away; they apply to new charges.
 * - Quotas are not in the image. After a takeover the clients are charged again (inputs_image.c, outputs_recharge()), and
 *   one above a limit keeps its connection.
 *
 * Control loop only.
 */
#ifndef FRAMED_CLIENT_QUOTA_H
#define FRAMED_CLIENT_QUOTA_H

#include "config/config.h"

struct quota;
struct quota_user;

enum quota_kind { QUOTA_SESSION, QUOTA_READER, QUOTA_KINDS };

struct quota_charge { /* all zero: no charge */
  struct quota_user *user;
  enum quota_kind kind;
  bool left; /* the client has left, and only its memory is charged */
  uint64_t bytes;
};

enum { QUOTA_PROBLEM = 160 };

struct quota *quota_new(void); /* NULL without memory */
/* All charges must have been released. Accepts NULL; returns NULL. */
struct quota *quota_free(struct quota *quota);
/* For new charges; existing ones stay. */
void quota_limit(struct quota *quota, const struct config_limits *limits);

/* Charges one session or reader with its memory. Returns false if the user's quota is exceeded; `problem` has the reason. */
bool quota_charge(struct quota *quota, uid_t user, enum quota_kind kind, uint64_t bytes, struct quota_charge *charge,
                  char problem[QUOTA_PROBLEM]);
/* The client has left; its memory is charged until quota_release(). Idempotent. */
void quota_leave(struct quota_charge *charge);
void quota_release(struct quota_charge *charge); /* idempotent */

#endif
