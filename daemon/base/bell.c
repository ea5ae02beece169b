#include "daemon/base/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* The ring itself carries no data; the lane reads the page after each poll. */
static void on_ring(uv_poll_t *poll, int status, int events) {
  const struct bell *bell = poll->data;
  uint64_t count;
  (void)status;
  (void)events;
  (void)!read(bell->eventfd, &count, sizeof count);
}

int bell_open(struct bell *bell, uv_loop_t *loop) {
  memset(bell, 0, sizeof *bell);
  bell->memory = memfd_create("framed-bell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  bell->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  void *page = MAP_FAILED;
  if (bell->memory >= 0 && bell->eventfd >= 0 && ftruncate(bell->memory, sizeof *bell->page) == 0 &&
      fcntl(bell->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    page = mmap(NULL, sizeof *bell->page, PROT_READ | PROT_WRITE, MAP_SHARED, bell->memory, 0);
  }
  int code = page == MAP_FAILED ? -errno : uv_poll_init(loop, &bell->poll, bell->eventfd);
  bell->page = page == MAP_FAILED ? NULL : page;
  pthread_mutex_init(&bell->lock, NULL);
  if (code != 0) {
    bell_free(bell);
    return code;
  }
  bell->poll.data = bell;
  return uv_poll_start(&bell->poll, UV_READABLE, on_ring);
}

void bell_close(struct bell *bell) { uv_close((uv_handle_t *)&bell->poll, NULL); }

void bell_free(struct bell *bell) {
  if (bell->page) {
    munmap(bell->page, sizeof *bell->page);
  }
  if (bell->memory >= 0) {
    close(bell->memory);
  }
  if (bell->eventfd >= 0) {
    close(bell->eventfd);
  }
  pthread_mutex_destroy(&bell->lock);
}

int bell_join(struct bell *bell, struct runner *runner) {
  int bit = -1;
  pthread_mutex_lock(&bell->lock);
  for (unsigned i = 0; i < PAGES_PROGRAMS && bit < 0; i++) {
    if (!bell->taken[i]) {
      bell->taken[i] = true;
      atomic_store(&bell->runners[i], runner);
      bit = (int)i;
    }
  }
  if (bit >= 0 && (unsigned)bit >= atomic_load(&bell->most)) {
    atomic_store(&bell->most, (unsigned)bit + 1);
  }
  pthread_mutex_unlock(&bell->lock);
  return bit;
}

void bell_leave(struct bell *bell, unsigned bit) {
  pthread_mutex_lock(&bell->lock);
  atomic_store(&bell->runners[bit], NULL);
  bell->taken[bit] = false;
  pthread_mutex_unlock(&bell->lock);
}

void bell_forget(struct bell *bell, const struct runner *runner) {
  for (unsigned i = 0; i < atomic_load(&bell->most); i++) {
    if (atomic_load(&bell->runners[i]) == runner) {
      atomic_store(&bell->runners[i], NULL);
    }
  }
}

bool bell_may_sleep(struct bell *bell) {
  uint64_t bits = 0;
  atomic_store(&bell->page->sleeping, 1);
  atomic_thread_fence(memory_order_seq_cst);
  const unsigned most = atomic_load_explicit(&bell->most, memory_order_acquire);
  for (unsigned word = 0; word * 64 < most; word++) {
    bits |= atomic_load_explicit(&bell->page->bits[word], memory_order_acquire);
  }
  return bits == 0;
}

void bell_poll(struct bell *bell, void (*ring)(struct runner *runner)) {
  const unsigned most = atomic_load_explicit(&bell->most, memory_order_acquire);
  if (atomic_load_explicit(&bell->page->sleeping, memory_order_relaxed) != 0) {
    atomic_store(&bell->page->sleeping, 0);
  }
  for (unsigned word = 0; word * 64 < most; word++) {
    _Atomic uint64_t *place = &bell->page->bits[word];
    uint64_t bits = atomic_load_explicit(place, memory_order_relaxed) ? atomic_exchange(place, 0) : 0;
    for (; bits; bits &= bits - 1) {
      struct runner *runner = atomic_load(&bell->runners[word * 64 + (unsigned)__builtin_ctzll(bits)]);
      if (runner) {
        ring(runner);
      }
    }
  }
}
