#include "daemon/base/doorbell.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/base/rights.h"

enum { MOST_RINGS = 256 }; /* doorbells read at once */

/* Before the client sleeps it sets `sleeps` and then checks the cursors once more, so no wake-up is lost. */
bool doorbell_ring(struct native_control *control, int fd) {
  const unsigned char doorbell = NATIVE_DOORBELL;
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&control->client.sleeps, memory_order_relaxed) == 0) {
    return true;
  }
  atomic_store_explicit(&control->client.sleeps, 0, memory_order_relaxed);
  /* If the socket is full, enough doorbells wait there. After any other error the client still sleeps. */
  if (send(fd, &doorbell, sizeof doorbell, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno == EAGAIN) {
    return true;
  }
  atomic_store_explicit(&control->client.sleeps, 1, memory_order_relaxed);
  return false;
}

static bool are_doorbells(const unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (bytes[i] != NATIVE_DOORBELL) {
      return false;
    }
  }
  return true;
}

enum doorbell_input doorbell_read(int fd) {
  unsigned char bytes[MOST_RINGS];
  ssize_t got = rights_read(fd, &(struct iovec){.iov_base = bytes, .iov_len = sizeof bytes}, 1);
  if (got > 0 && !are_doorbells(bytes, (size_t)got)) {
    return DOORBELL_NONSENSE;
  }
  if (got > 0) {
    return got == (ssize_t)sizeof bytes ? DOORBELL_MORE : DOORBELL_NOTHING;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return DOORBELL_NOTHING;
  }
  return got == 0 || errno == ECONNRESET ? DOORBELL_GONE : DOORBELL_ERROR;
}
