/*
 * An upgrade of the daemon: its next image follows in place, knows of nothing that the worker has made, and asks for everything
 * again. The device stays open, which is most of what a start takes.
 *
 * Frames that still run are finished first, because the daemon computes them again into the same slots. Models stay open and
 * memory stays registered until the daemon says that its start is over: it will ask for the same ones.
 */
#include <stdlib.h>

#include "gpu/backend.h"
#include "gpu/serve/serve.h"

struct kept {
  enum object_kind kind; /* OBJECT_CHAIN, whose models stay open with it, or OBJECT_MODEL */
  void *object;
  reset_drop *drop;
  struct kept *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *first;

/* Without memory it is opened again. */
static void keep(enum object_kind kind, void *object, reset_drop *drop) {
  struct kept *kept = malloc(sizeof *kept);
  if (!kept) {
    drop(kind, object);
    return;
  }
  pthread_mutex_lock(&lock);
  *kept = (struct kept){.kind = kind, .object = object, .drop = drop, .next = first};
  first = kept;
  pthread_mutex_unlock(&lock);
}

void serve_reset(reset_drop *drop) {
  static const enum object_kind kinds[] = {OBJECT_PROGRAM, OBJECT_CHAIN, OBJECT_MODEL, OBJECT_ARENA};
  void *object;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    while ((object = objects_take_any(kinds[i]))) {
      if (kinds[i] == OBJECT_PROGRAM) {
        drop(kinds[i], object);
      } else if (kinds[i] == OBJECT_ARENA) {
        arenas_set_aside(object);
      } else {
        keep(kinds[i], object, drop);
      }
    }
  }
  lines_close();
}

void serve_end_reset(void) {
  pthread_mutex_lock(&lock);
  struct kept *kept = first;
  first = NULL;
  pthread_mutex_unlock(&lock);
  while (kept) {
    struct kept *next = kept->next;
    kept->drop(kept->kind, kept->object);
    free(kept);
    kept = next;
  }
  arenas_drop_aside();
}
