/* Entries of the journal, in its own protocol: each is one datagram with all fields, and none waits for the journal. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/datagram.h"
#include "daemon/base/systemd.h"

#define JOURNAL "/run/systemd/journal/socket"

bool systemd_has_journal(void) {
  const char *stream = getenv("JOURNAL_STREAM");
  uintmax_t device = 0;
  uintmax_t inode = 0;
  char rest = 0;
  struct stat status;
  /* Redirected stderr keeps the variable, so only the same device and inode mean the journal. */
  return stream && sscanf(stream, "%ju:%ju%c", &device, &inode, &rest) == 2 && fstat(STDERR_FILENO, &status) == 0 &&
         device == (uintmax_t)status.st_dev && inode == (uintmax_t)status.st_ino;
}

static struct datagram journal = {.fd = -1};

enum { MOST_FIELDS = 32, PARTS = 5 };

/* NAME=value and a line's end; or, where the value has such of its own: NAME, a line's end, its length, itself, a line's
 * end. */
static int put_field(const struct iovec *field, uint64_t *length, struct iovec *parts) {
  char *text = field->iov_base;
  const char *equals = memchr(text, '=', field->iov_len);
  static char line_end[] = "\n";
  const struct iovec end = {.iov_base = line_end, .iov_len = 1};
  if (!equals || !memchr(text, '\n', field->iov_len)) {
    parts[0] = *field;
    parts[1] = end;
    return 2;
  }
  size_t name = (size_t)(equals - text);
  *length = htole64(field->iov_len - name - 1);
  parts[0] = (struct iovec){.iov_base = text, .iov_len = name};
  parts[1] = end;
  parts[2] = (struct iovec){.iov_base = length, .iov_len = sizeof *length};
  parts[3] = (struct iovec){.iov_base = text + name + 1, .iov_len = field->iov_len - name - 1};
  parts[4] = end;
  return 5;
}

bool systemd_journal(const struct iovec *fields, int count) {
  struct iovec parts[MOST_FIELDS * PARTS];
  uint64_t lengths[MOST_FIELDS];
  int used = 0;
  for (int i = 0; i < count && i < MOST_FIELDS; i++) {
    used += put_field(&fields[i], &lengths[i], parts + used);
  }
  return (journal.fd >= 0 || datagram_open(&journal, JOURNAL)) && datagram_send_large(&journal, parts, used);
}
