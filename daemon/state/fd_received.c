/*
 * What this process received from the one before it, which goes on lying in the store until it is of no use to anybody else:
 * should this process be killed before it has touched anything, the next one receives the same.
 *
 * How many processes have received it stands in the heartbeat of the process that left it. That is memory, so that it is known
 * at once, whatever becomes of what the service manager is told.
 */
#include <stdio.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/state/fd_names.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"

/* A process may be killed for what it receives: the last of so many processes in a row receives it, and the next one nothing.
 */
enum { MOST_TAKERS = 3 };

static struct {
  bool lies_there;
  bool has_state;
  uint64_t manifest; /* its number; 0: none */
  uint64_t takers;   /* processes that had received it before this one */
} received;

void fd_received_state(void) { received.has_state = true; }

void fd_received_manifest(uint64_t number) { received.manifest = number; }

void fd_received_heartbeat(uint64_t takers) { received.takers = takers; }

void fd_store_forget_manifest(uint64_t number) {
  char name[NAME];
  snprintf(name, sizeof name, MANIFEST "%llu", (unsigned long long)number);
  systemd_forget(name);
}

static bool write_takers(uint64_t takers) {
  off_t at = IMAGE_FRONT + (off_t)offsetof(struct fd_store_heartbeat, takers);
  return pwrite(image_left_fd(), &takers, sizeof takers, at) == (ssize_t)sizeof takers;
}

void fd_store_release(void) {
  if (!received.lies_there) {
    return;
  }
  received.lies_there = false;
  write_takers(FD_STORE_SPENT);
  if (received.has_state) {
    systemd_forget(STATE);
  }
  if (received.manifest > 0) {
    fd_store_forget_manifest(received.manifest);
  }
  fd_table_forget_taken();
}

void fd_store_repeat(void) {
  received.lies_there = true;
  write_takers(received.takers);
}

void fd_received_leave(bool of_use) {
  uint64_t takers = received.takers + 1;
  received.lies_there = true;
  if (!of_use || takers >= MOST_TAKERS || !write_takers(takers)) {
    fd_store_release();
  }
}
