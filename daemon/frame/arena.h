/*
 * An arena: a sealed memfd that holds the inputs or the outputs of a session's slots. It is mapped, populated and registered
 * with the device. The seals forbid shrinking and growing, so no access can fault. The pages of a slot come from the NUMA node
 * of its device, and are huge pages where the kernel has them. Only set-up threads make and free arenas.
 */
#ifndef FRAMED_FRAME_ARENA_H
#define FRAMED_FRAME_ARENA_H

#include "daemon/base/failure.h"
#include "daemon/device/device.h"

struct arena {
  int fd; /* -1: none */
  unsigned char *base;
  size_t bytes;
  struct device *device; /* the device it is registered with, or NULL */
};

#define ARENA_NONE ((struct arena){.fd = -1})

/* Distance between two slots in bytes: whole pages, so that slots never share a page. */
size_t arena_stride(size_t frame_bytes);
size_t arena_bytes(size_t frame_bytes, unsigned slots);

/* Makes an arena. `device` NULL: do not register it with a device. */
bool arena_make(struct arena *arena, const char *name, size_t frame_bytes, unsigned slots, struct device *device,
                struct failure *failure);
/* Maps an arena that another process image made. Takes over `fd`, which must be sealed and of the right size. */
bool arena_adopt(struct arena *arena, const char *name, size_t frame_bytes, unsigned slots, int fd, struct device *device,
                 struct failure *failure);
/* Opens another descriptor of the memory with its own access mode (O_RDONLY, O_RDWR). Returns -1 on error. */
int arena_open(const struct arena *arena, int access, struct failure *failure);
void arena_drop(struct arena *arena); /* idempotent; descriptors and mappings of others stay valid */
/* Like arena_drop(), but also returns the pages to the kernel. Others who still have the memory mapped then read zeros. New
 * pages that they touch are charged to their processes. The time grows with the size. */
void arena_discard(struct arena *arena);

#endif
