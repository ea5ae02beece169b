/*
 * An arena: a sealed memfd, mapped, filled with pages and registered with the device, in which the inputs or the
 * outputs of one session's slots lie. Sealed against shrinking and growing, so that nothing can make an access to it
 * fault. A slot's pages come from the NUMA node of its device where there is one, and are huge where the kernel has such. Made
 * and freed on set-up threads only.
 */
#ifndef FRAMED_FRAME_ARENA_H
#define FRAMED_FRAME_ARENA_H

#include "daemon/base/failure.h"
#include "daemon/device/device.h"

struct arena {
  int fd; /* -1: none */
  unsigned char *base;
  size_t bytes;
  struct device *device; /* that has it registered, or NULL */
};

#define ARENA_NONE ((struct arena){.fd = -1})

/* Distance of two slots with frames of this size: whole pages, so that no two slots share one. */
size_t arena_stride(size_t frame_bytes);
/* Bytes of an arena of `slots` slots. */
size_t arena_bytes(size_t frame_bytes, unsigned slots);

/* Of `slots` slots. `device` NULL: memory that no device gets to see. */
bool arena_make(struct arena *arena, const char *name, size_t frame_bytes, unsigned slots, struct device *device,
                struct failure *failure);
/* The same in memory that another process image made: `fd` is taken over, and must be sealed and of that size. */
bool arena_adopt(struct arena *arena, const char *name, size_t frame_bytes, unsigned slots, int fd, struct device *device,
                 struct failure *failure);
/* Another descriptor of the memory, for somebody else, with an access of its own (O_RDONLY, O_RDWR). -1 if there is none. */
int arena_open(const struct arena *arena, int access, struct failure *failure);
void arena_drop(struct arena *arena); /* idempotent; what others have of it stays theirs */
/* The same, and its pages go back to the kernel although others may still have descriptors and mappings of it, who see zeros.
 * What they write there from then on is memory of their own, for which the kernel charges them as for any. For memory of any
 * size this takes time. */
void arena_give_up(struct arena *arena);

#endif
