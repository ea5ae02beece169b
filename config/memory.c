#include "config/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef FRAMED_FAULTS
long memory_allocations_left = -1;

static bool may_allocate(void) {
  if (memory_allocations_left < 0) {
    return true;
  }
  if (memory_allocations_left == 0) {
    return false;
  }
  memory_allocations_left--;
  return true;
}
#else
static bool may_allocate(void) { return true; }
#endif

void *memory_new(size_t count, size_t size) { return may_allocate() ? calloc(count > 0 ? count : 1, size) : NULL; }

void *memory_grow(void *array, size_t count, size_t size) {
  if (array && (count & (count - 1)) != 0) {
    return array;
  }
  size_t room = count > 0 ? 2 * count : 1;
  if (room > SIZE_MAX / 2 / size || !may_allocate()) {
    return NULL;
  }
  char *grown = realloc(array, room * size);
  if (grown) {
    memset(grown + count * size, 0, (room - count) * size);
  }
  return grown;
}

void *memory_resize(void *bytes, size_t room) { return may_allocate() ? realloc(bytes, room) : NULL; }

char *memory_copy(const char *text, size_t length) {
  char *copy = memory_new(length + 1, 1);
  if (copy && length > 0) {
    memcpy(copy, text, length);
  }
  return copy;
}
