/*
 * The user and password of a camera, from a file that only root and the daemon may read.
 *
 * They are in memory only while the message for framed-camera is made, and are zeroed after that: a core dump of the daemon has
 * no password. No failure quotes the file.
 */
#ifndef FRAMED_CAMERA_CREDENTIAL_H
#define FRAMED_CAMERA_CREDENTIAL_H

#include <stdint.h>

#include "daemon/base/failure.h"

enum { CREDENTIAL_BYTES = 512 };

struct credential {
  char user[CREDENTIAL_BYTES], password[CREDENTIAL_BYTES];
};

/* Reads the file of that name; credential_clear() follows, also after a failure. */
bool credential_read(const char *name, struct credential *credential, struct failure *failure);
void credential_clear(struct credential *credential);

/* Another file in its place, or one that was written to, has another identity. Zero: no file. */
struct file_identity {
  uint64_t device, inode, size, seconds, nanoseconds;
};
/* `name` may be NULL. */
void credential_identify(const char *name, struct file_identity *identity);

#endif
