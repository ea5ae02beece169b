#include "daemon/camera/turns.h"

#include <stdlib.h>
#include <unistd.h>

enum { STARTS_A_CORE = 2 }; /* loading and probing take most of a core for 0.1 to 0.3 s */

struct cameras {
  unsigned starting, most;
  struct turn *first; /* of those that wait, in order */
};

struct cameras *cameras_new(void) {
  struct cameras *cameras = calloc(1, sizeof *cameras);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (cameras) {
    cameras->most = STARTS_A_CORE * (cores > 0 ? (unsigned)cores : 1);
  }
  return cameras;
}

struct cameras *cameras_free(struct cameras *cameras) {
  free(cameras);
  return NULL;
}

static void start_next(struct cameras *cameras) {
  while (cameras->first && cameras->starting < cameras->most) {
    struct turn *turn = cameras->first;
    cameras->first = turn->next;
    cameras->starting++;
    turn->waits = false;
    turn->starts = true;
    turn->begin(turn->context);
  }
}

void turn_request(struct cameras *cameras, struct turn *turn) {
  struct turn **end = &cameras->first;
  while (*end) {
    end = &(*end)->next;
  }
  *end = turn;
  turn->next = NULL;
  turn->waits = true;
  start_next(cameras);
}

void turn_end(struct cameras *cameras, struct turn *turn) {
  if (turn->waits) {
    struct turn **at = &cameras->first;
    while (*at != turn) {
      at = &(*at)->next;
    }
    *at = turn->next;
    turn->waits = false;
  } else if (turn->starts) {
    turn->starts = false;
    cameras->starting--;
    start_next(cameras);
  }
}
