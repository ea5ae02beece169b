/*
 * What this process received from the one before it, which goes on lying in the store until it is of no use to anybody else:
 * should this process be killed before it has touched anything, the next one receives the same.
 *
 * How many processes have received it stands in the heartbeat of the process that left it. That is memory, as is all of the
 * image's front, so that it is known at once, whatever becomes of what the service manager is told.
 */
#include <stdio.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/state/fd_front.h"
#include "daemon/state/image.h"

/* A process may be killed for what it receives: the last of so many processes in a row receives it, and the next one nothing.
 */
enum { MOST_TAKERS = 3 };

static struct {
  uint64_t image;  /* when it was made, by which it lies in the store; 0: it does not */
  uint64_t takers; /* processes that had received it before this one */
} received;

void fd_received_image(uint64_t born) { received.image = born; }

bool fd_received_has_image(void) { return received.image > 0; }

const char *fd_store_image_name(uint64_t born, char name[NAME]) {
  snprintf(name, NAME, IMAGE "%llu", (unsigned long long)born);
  return name;
}

void fd_received_forget_image(void) {
  char name[NAME];
  if (received.image > 0 && systemd_forget(fd_store_image_name(received.image, name))) {
    received.image = 0;
  }
}

/* Also that of an image of another version, which is not there to read. */
static bool write_front(size_t offset, uint64_t number) {
  return pwrite(image_left_fd(), &number, sizeof number, IMAGE_FRONT + (off_t)offset) == (ssize_t)sizeof number;
}

static bool write_takers(uint64_t takers) { return write_front(offsetof(struct fd_store_heartbeat, takers), takers); }

void fd_received_end(void) { write_front(offsetof(struct fd_store_heartbeat, last), 0); }

void fd_store_release(void) { write_front(offsetof(struct fd_store_front, state), 0); }

void fd_store_repeat(void) { write_takers(received.takers); }

void fd_received_leave(bool of_use, uint64_t takers) {
  received.takers = takers;
  if (!of_use || takers + 1 >= MOST_TAKERS || !write_takers(takers + 1)) {
    fd_store_release();
  }
}
