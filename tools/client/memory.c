/* The memory of frames and results: private for the stream transport, the daemon's for shared memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/client/client.h"

static bool take(struct region *region, void *base, size_t bytes, size_t stride) {
  if (base == MAP_FAILED) {
    return false;
  }
  *region = (struct region){.base = base, .bytes = bytes, .stride = stride};
  return true;
}

bool region_make(struct region *region, unsigned count, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (bytes > SIZE_MAX - page || (bytes + page - 1) / page * page > SIZE_MAX / 2 / count) {
    errno = ENOMEM;
    return false;
  }
  size_t stride = (bytes + page - 1) / page * page;
  size_t all = stride * count;
  return take(region, mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), all, stride);
}

/* A mapped file that shrinks kills this process with SIGBUS at the next access. */
static bool is_safe(int fd, size_t bytes) {
  struct stat status;
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &status) == 0 && status.st_size >= 0 &&
         (size_t)status.st_size >= bytes;
}

bool region_map(struct region *region, int fd, unsigned count, size_t bytes, size_t stride, bool writable) {
  if (bytes == 0 || stride < bytes || stride > SIZE_MAX / 2 / count || stride % 64 != 0 || !is_safe(fd, stride * count)) {
    errno = EPROTO;
    return false;
  }
  int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  return take(region, mmap(NULL, stride * count, access, MAP_SHARED | MAP_POPULATE, fd, 0), stride * count, stride);
}

static void region_drop(struct region *region) {
  if (region->base) {
    munmap(region->base, region->bytes);
  }
  *region = (struct region){0};
}

struct lot *lot_new(struct framed *client, unsigned places) {
  struct lot *lot = calloc(1, sizeof *lot);
  if (!lot) {
    client_break(client, FRAMED_E_SYSTEM, ENOMEM, "no memory for pipeline %s", client->info.pipeline);
    return NULL;
  }
  lot->places = places;
  lot->number = client->lot ? client->lot->number + 1 : 0;
  lot->older = client->lot;
  return lot;
}

struct lot *lot_free(struct lot *lot) {
  while (lot) {
    struct lot *older = lot->older;
    region_drop(&lot->inputs);
    region_drop(&lot->outputs);
    region_drop(&lot->control);
    free(lot);
    lot = older;
  }
  return NULL;
}

int region_place(const struct region *region, unsigned count, const void *pointer) {
  for (unsigned i = 0; region->base && i < count; i++) {
    if (region->base + i * region->stride == (const unsigned char *)pointer) {
      return (int)i;
    }
  }
  return -1;
}
