#include "daemon/frame/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/state/fd_table.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, MOST_NODES = 1024, WORD = 8 * sizeof(unsigned long) };

/* Linux's values, for C libraries that do not define them yet. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

size_t arena_stride(size_t frame_bytes) { return (frame_bytes + PAGE - 1) / PAGE * PAGE; }

size_t arena_bytes(size_t frame_bytes, unsigned slots) { return arena_stride(frame_bytes) * slots; }

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static bool arena_create(struct arena *arena, const char *name, struct failure *failure) {
  arena->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (arena->fd < 0) {
    return failure_set_system(failure, errno, "raise the limit of open files (LimitNOFILE)", "cannot create memory '%s'", name);
  }
  if (fchmod(arena->fd, S_IRUSR | S_IWUSR) != 0 || ftruncate(arena->fd, (off_t)arena->bytes) != 0 ||
      fcntl(arena->fd, F_ADD_SEALS, SEALS) != 0) {
    return failure_set_system(failure, errno, NULL, "cannot size memory '%s' to %zu bytes", name, arena->bytes);
  }
  return true;
}

/*
 * Maps the memory at an address that huge pages can use. With huge pages sockets and devices walk 1 page table entry for 2 MiB
 * and not 512.
 */
static void *map_shared(int fd, size_t bytes) {
  const size_t whole = arena_stride(bytes);
  if (bytes < HUGE_PAGE) {
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  unsigned char *room = mmap(NULL, whole + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return MAP_FAILED;
  }
  const size_t before = (HUGE_PAGE - (uintptr_t)room % HUGE_PAGE) % HUGE_PAGE;
  unsigned char *base = mmap(room + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (base == MAP_FAILED) {
    munmap(room, whole + HUGE_PAGE);
    return MAP_FAILED;
  }
  if (before > 0) {
    munmap(room, before);
  }
  munmap(base + whole, HUGE_PAGE - before);
  return base;
}

/*
 * Binds the pages of each slot to the NUMA node of its device, if possible. The kernel stores this with the memory. So it also
 * holds for pages that are allocated again after a client punched a hole. With one node, or where seccomp forbids mbind, pages
 * may come from any node.
 */
static void arena_place(const struct arena *arena, unsigned slots, const struct device *device) {
  const size_t stride = arena->bytes / slots;
  for (unsigned slot = 0; device && slot < slots; slot++) {
    const int node = device_node(device, slot);
    if (node >= 0 && node < MOST_NODES) {
      unsigned long nodes[MOST_NODES / WORD] = {0};
      nodes[(size_t)node / WORD] = 1UL << (size_t)node % WORD;
      (void)syscall(SYS_mbind, arena->base + slot * stride, stride, MPOL_PREFERRED, nodes, MOST_NODES + 1UL, 0U);
    }
  }
}

/* Populates one small page per huge page, then asks the kernel to collapse them. This takes a tenth of the time of populating
 * all small pages. Pages stay small where the kernel cannot collapse them. */
static void make_huge(const struct arena *arena) {
  for (size_t at = 0; at + HUGE_PAGE <= arena->bytes; at += HUGE_PAGE) {
    if (madvise(arena->base + at, PAGE, MADV_POPULATE_WRITE) != 0) {
      return;
    }
  }
  (void)madvise(arena->base, arena->bytes / HUGE_PAGE * HUGE_PAGE, MADV_COLLAPSE);
}

/* Populates the pages and keeps their bytes. */
static bool arena_receive(const struct arena *arena, const char *name, struct failure *failure) {
  if (madvise(arena->base, arena->bytes, MADV_POPULATE_WRITE) == 0) {
    return true;
  }
  if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) {
    return failure_set_system(failure, errno, "use fewer slots or clients, or smaller frames, or free memory",
                              "no pages for the %zu bytes of '%s'", arena->bytes, name);
  }
  /* MADV_POPULATE_WRITE is missing (Linux before 5.14) or forbidden by seccomp */
  for (size_t at = 0; at < arena->bytes; at += PAGE) {
    (void)*(const volatile unsigned char *)(arena->base + at);
  }
  return true;
}

static bool map(struct arena *arena, const char *name, unsigned slots, const struct device *device, bool is_new,
                struct failure *failure) {
  void *base = map_shared(arena->fd, arena->bytes);
  if (base == MAP_FAILED) {
    return failure_set_system(failure, errno, "use fewer slots or clients, or smaller frames", "cannot map %zu bytes for '%s'",
                              arena->bytes, name);
  }
  arena->base = base;
  arena_place(arena, slots, device);
  if (is_new) {
    make_huge(arena);
  }
  return arena_receive(arena, name, failure);
}

static bool arena_pin(struct arena *arena, const char *name, struct device *device, struct failure *failure) {
  struct gpu_error error = {0};
  if (!device) {
    return true;
  }
  if (!device_pin(device, arena->fd, arena->base, arena->bytes, &error)) {
    return device_failure(failure, &error, "cannot pin %zu bytes for '%s'", arena->bytes, name);
  }
  arena->device = device;
  return true;
}

bool arena_make(struct arena *arena, const char *name, size_t frame_bytes, unsigned slots, struct device *device,
                struct failure *failure) {
  *arena = ARENA_NONE;
  arena->bytes = arena_bytes(frame_bytes, slots);
  bool made = arena_create(arena, name, failure) && map(arena, name, slots, device, true, failure) &&
              arena_pin(arena, name, device, failure);
  if (!made) {
    arena_drop(arena);
  }
  return made;
}

static bool is_sealed(const struct arena *arena, const char *name, struct failure *failure) {
  struct stat status;
  bool fits = fstat(arena->fd, &status) == 0 && status.st_size == (off_t)arena->bytes &&
              (fcntl(arena->fd, F_GET_SEALS) & SEALS) == SEALS;
  return fits || failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "what was handed over as memory '%s' is not %zu sealed bytes",
                             name, arena->bytes);
}

bool arena_adopt(struct arena *arena, const char *name, size_t frame_bytes, unsigned slots, int fd, struct device *device,
                 struct failure *failure) {
  *arena = (struct arena){.fd = fd, .bytes = arena_bytes(frame_bytes, slots)};
  bool adopted = is_sealed(arena, name, failure) && map(arena, name, slots, device, false, failure) &&
                 arena_pin(arena, name, device, failure);
  if (!adopted) {
    arena_drop(arena);
  }
  return adopted;
}

int arena_open(const struct arena *arena, int access, struct failure *failure) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", arena->fd);
  int fd = open(path, access | O_CLOEXEC);
  if (fd < 0) {
    failure_set_system(failure, errno, "raise the limit of open files (LimitNOFILE)", "cannot share %zu bytes of memory",
                       arena->bytes);
  }
  return fd;
}

static void unmap(struct arena *arena) {
  if (arena->device) {
    device_unpin(arena->device, arena->base, arena->bytes);
  }
  if (arena->base) {
    munmap(arena->base, arena->bytes);
  }
  arena->device = NULL;
  arena->base = NULL;
}

void arena_drop(struct arena *arena) {
  unmap(arena);
  if (arena->fd >= 0) {
    fd_table_leave(arena->fd, false);
    close(arena->fd);
  }
  *arena = ARENA_NONE;
}

/* The seals allow punching holes, and nobody can add other seals. Unmaps first, so that this process no longer holds any of the
 * pages. */
void arena_discard(struct arena *arena) {
  unmap(arena);
  if (arena->fd >= 0) {
    (void)fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)arena->bytes);
  }
  arena_drop(arena);
}
