/* Memory that is registered with a device: the worker maps it, and again each worker that takes another's place. */
#include <stdlib.h>

#include "daemon/device/private.h"

bool arena_send(struct device *device, struct process *process, struct device_arena *arena, struct gpu_error *error) {
  struct worker_message answer;
  struct pack request = {.bytes = NULL};
  (void)device;
  pack_number(&request, (int64_t)arena->bytes);
  bool sent = process_call(process, WORKER_ARENA, &request, &arena->fd, 1, &answer, error);
  if (sent) {
    arena->id = (uint64_t)unpack_number(&answer.unpack);
  }
  worker_message_free(&answer);
  free(request.bytes);
  return sent;
}

static bool pin_on(struct device *device, int fd, void *base, size_t bytes, struct gpu_error *error) {
  struct device_arena *arena = calloc(1, sizeof *arena);
  if (!arena) {
    return device_no_memory(error);
  }
  *arena = (struct device_arena){.base = base, .bytes = bytes, .fd = fd};
  pthread_mutex_lock(&device->making);
  bool pinned = arena_send(device, device->process, arena, error);
  if (pinned) {
    pthread_mutex_lock(&device->lock);
    arena->next = device->arenas;
    device->arenas = arena;
    pthread_mutex_unlock(&device->lock);
  } else {
    free(arena);
  }
  pthread_mutex_unlock(&device->making);
  return pinned;
}

static void unpin_on(struct device *device, const void *base) {
  struct device_arena *found = NULL;
  pthread_mutex_lock(&device->making);
  pthread_mutex_lock(&device->lock);
  for (struct device_arena **at = &device->arenas; *at && !found; at = found ? at : &(*at)->next) {
    if ((*at)->base == base) {
      found = *at;
      *at = found->next;
      break;
    }
  }
  pthread_mutex_unlock(&device->lock);
  if (found) {
    process_let_go(device->process, found->id);
    free(found);
  }
  pthread_mutex_unlock(&device->making);
}

bool device_pin(struct device *device, int fd, void *base, size_t bytes, struct gpu_error *error) {
  if (device->member_count == 0) {
    return pin_on(device, fd, base, bytes, error);
  }
  unsigned pinned = 0;
  while (pinned < device->member_count && pin_on(device->members[pinned], fd, base, bytes, error)) {
    pinned++;
  }
  if (pinned == device->member_count) {
    return true;
  }
  while (pinned > 0) {
    unpin_on(device->members[--pinned], base);
  }
  return false;
}

void device_unpin(struct device *device, void *base, size_t bytes) {
  (void)bytes;
  if (device->member_count == 0) {
    unpin_on(device, base);
  }
  for (unsigned i = 0; i < device->member_count; i++) {
    unpin_on(device->members[i], base);
  }
}
