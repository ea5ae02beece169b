#include <pthread.h>
#include <stdlib.h>

#include "gpu/serve/serve.h"

enum { ROOM = 64 };

/* Numbers are never used again, so that a late request finds nothing. */
struct object {
  uint64_t id;
  enum object_kind kind;
  void *object;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;
static size_t count, room;
static uint64_t last_id;

uint64_t objects_add(enum object_kind kind, void *object) {
  uint64_t id = 0;
  pthread_mutex_lock(&lock);
  if (count == room) {
    struct object *more = realloc(objects, (room + ROOM) * sizeof *more);
    objects = more ? more : objects;
    room += more ? ROOM : 0;
  }
  if (count < room) {
    id = ++last_id;
    objects[count++] = (struct object){.id = id, .kind = kind, .object = object};
  }
  pthread_mutex_unlock(&lock);
  return id;
}

static struct object *find(uint64_t id) {
  for (size_t i = 0; i < count; i++) {
    if (objects[i].id == id) {
      return &objects[i];
    }
  }
  return NULL;
}

void *objects_find(enum object_kind kind, uint64_t id) {
  pthread_mutex_lock(&lock);
  const struct object *found = find(id);
  void *object = found && found->kind == kind ? found->object : NULL;
  pthread_mutex_unlock(&lock);
  return object;
}

void *objects_take(uint64_t id, enum object_kind *kind) {
  void *object = NULL;
  *kind = OBJECT_NONE;
  pthread_mutex_lock(&lock);
  struct object *found = find(id);
  if (found) {
    object = found->object;
    *kind = found->kind;
    *found = objects[--count];
  }
  pthread_mutex_unlock(&lock);
  return object;
}

void *objects_take_any(enum object_kind kind) {
  void *object = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count && !object; i++) {
    if (objects[i].kind == kind) {
      object = objects[i].object;
      objects[i] = objects[--count];
    }
  }
  pthread_mutex_unlock(&lock);
  return object;
}
