#include "daemon/client/quota.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "config/units.h"

struct quota_user {
  struct quota *quota;
  struct quota_user *next;
  uid_t uid;
  uint64_t charges, count[QUOTA_KINDS], bytes;
};

struct quota {
  struct config_limits limits;
  struct quota_user *users;
};

struct quota *quota_new(void) {
  return calloc(1, sizeof(struct quota));
}

struct quota *quota_free(struct quota *quota) {
  assert(!quota || !quota->users);
  free(quota);
  return NULL;
}

void quota_limit(struct quota *quota, const struct config_limits *limits) { quota->limits = *limits; }

static struct quota_user *quota_find_user(struct quota *quota, uid_t uid) {
  struct quota_user *user = quota->users;
  while (user && user->uid != uid) {
    user = user->next;
  }
  return user;
}

static struct quota_user *find_or_add(struct quota *quota, uid_t uid) {
  struct quota_user *user = quota_find_user(quota, uid);
  if (!user && (user = calloc(1, sizeof *user))) {
    *user = (struct quota_user){.quota = quota, .next = quota->users, .uid = uid};
    quota->users = user;
  }
  return user;
}

static bool fits_count(const struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t count,
                       char problem[QUOTA_PROBLEM]) {
  static const char *const names[] = {[QUOTA_SESSION] = "session", [QUOTA_READER] = "reader"};
  const unsigned most = kind == QUOTA_SESSION ? quota->limits.sessions_per_user : quota->limits.readers_per_user;
  if (most == 0 || count <= most) {
    return true;
  }
  snprintf(problem, QUOTA_PROBLEM, "user %u already has its %u %s%s", (unsigned)uid, most, names[kind], most == 1 ? "" : "s");
  return false;
}

static bool fits_memory(const struct quota *quota, uid_t uid, uint64_t bytes, char problem[QUOTA_PROBLEM]) {
  char text[UNITS_TEXT];
  if (quota->limits.memory_per_user == 0 || bytes <= (uint64_t)quota->limits.memory_per_user) {
    return true;
  }
  snprintf(problem, QUOTA_PROBLEM, "the clients of user %u would take %" PRIu64 " bytes, more than its %s", (unsigned)uid,
           bytes, units_describe_size(quota->limits.memory_per_user, text));
  return false;
}

bool quota_charge(struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t bytes, struct quota_charge *charge,
                  char problem[QUOTA_PROBLEM]) {
  struct quota_user *user = quota_find_user(quota, uid);
  assert(!charge->user);
  if (!fits_count(quota, uid, kind, (user ? user->count[kind] : 0) + 1, problem) ||
      (bytes > 0 && !fits_memory(quota, uid, (user ? user->bytes : 0) + bytes, problem))) {
    return false;
  }
  user = find_or_add(quota, uid);
  if (!user) {
    snprintf(problem, QUOTA_PROBLEM, "not enough memory for one more user");
    return false;
  }
  user->charges++;
  user->count[kind]++;
  user->bytes += bytes;
  *charge = (struct quota_charge){.user = user, .kind = kind, .bytes = bytes};
  return true;
}

static void quota_forget_user(struct quota_user *user) {
  struct quota_user **link = &user->quota->users;
  while (*link != user) {
    link = &(*link)->next;
  }
  *link = user->next;
  free(user);
}

void quota_leave(struct quota_charge *charge) {
  if (charge->user && !charge->left) {
    charge->user->count[charge->kind]--;
    charge->left = true;
  }
}

void quota_release(struct quota_charge *charge) {
  struct quota_user *user = charge->user;
  quota_leave(charge);
  if (user) {
    user->bytes -= charge->bytes;
    if (--user->charges == 0) {
      quota_forget_user(user);
    }
  }
  *charge = (struct quota_charge){0};
}
