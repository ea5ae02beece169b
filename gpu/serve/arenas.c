/*
 * The memory of slots: the daemon shares it, and the device registers it.
 *
 * An image of the daemon that follows another one in place brings the same memory again. To register it takes milliseconds for
 * each hundred MiB, so what was registered is set aside, and found again by its inode.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/serve/serve.h"

struct arena {
  struct gpu_device *device;
  void *base;
  size_t bytes;
  dev_t file_system;
  ino_t inode;
  struct arena *next; /* of those set aside */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct arena *aside;

static struct arena *find_aside(const struct stat *file, size_t bytes) {
  struct arena *found = NULL;
  pthread_mutex_lock(&lock);
  for (struct arena **at = &aside; *at && !found; at = found ? at : &(*at)->next) {
    if ((*at)->file_system == file->st_dev && (*at)->inode == file->st_ino && (*at)->bytes == bytes) {
      found = *at;
      *at = found->next;
      break;
    }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

struct arena *arenas_take(struct gpu_device *device, int descriptor, size_t bytes, struct gpu_error *error) {
  struct stat file = {0};
  struct arena *arena = descriptor >= 0 && fstat(descriptor, &file) == 0 ? find_aside(&file, bytes) : NULL;
  if (arena) {
    close(descriptor);
    return arena;
  }
  arena = malloc(sizeof *arena);
  void *base = serve_map(descriptor, bytes);
  if (!arena || !base) {
    gpu_error_set(error, errno, NULL, "the worker cannot map %zu bytes: %s", bytes, strerror(errno));
  } else if (gpu_pin(device, base, bytes, error)) {
    *arena = (struct arena){.device = device, .base = base, .bytes = bytes, .file_system = file.st_dev, .inode = file.st_ino};
    return arena;
  }
  if (base) {
    munmap(base, bytes);
  }
  free(arena);
  return NULL;
}

void arenas_drop(struct arena *arena) {
  gpu_unpin(arena->device, arena->base, arena->bytes);
  munmap(arena->base, arena->bytes);
  free(arena);
}

void arenas_set_aside(struct arena *arena) {
  pthread_mutex_lock(&lock);
  arena->next = aside;
  aside = arena;
  pthread_mutex_unlock(&lock);
}

void arenas_drop_aside(void) {
  pthread_mutex_lock(&lock);
  struct arena *first = aside;
  aside = NULL;
  pthread_mutex_unlock(&lock);
  while (first) {
    struct arena *next = first->next;
    arenas_drop(first);
    first = next;
  }
}

void *arenas_place(uint64_t id, uint64_t offset, size_t bytes) {
  const struct arena *arena = objects_find(OBJECT_ARENA, id);
  const bool fits = arena && offset <= arena->bytes && arena->bytes - offset >= bytes;
  return fits ? (unsigned char *)arena->base + offset : NULL;
}
