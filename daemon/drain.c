#include "daemon/drain.h"

#include <stdlib.h>

#include "daemon/clock.h"
#include "daemon/loop.h"

struct drain {
  struct drain *next;
  struct drains *list;
  struct loop_timer *timer;
  server_answer *answer;
  void *context;
};

static void detach(struct drain *drain) {
  struct drain **link = &drain->list->first;
  while (*link != drain) {
    link = &(*link)->next;
  }
  *link = drain->next;
  loop_timer_close(drain->timer);
}

static void on_expired(void *context) {
  struct drain *drain = context;
  struct drains *list = drain->list;
  detach(drain);
  list->expired(list->owner, drain->answer, drain->context);
  free(drain);
}

void drains_add(struct drains *drains, int64_t limit_ns, server_answer *answer, void *context) {
  struct drain *drain = calloc(1, sizeof *drain);
  struct loop_timer *timer = drain ? loop_timer_new(drains->loop, on_expired, drain) : NULL;
  if (!timer) {
    free(drain);
    answer_error(answer, context, 503, NULL, "not enough memory to wait for this");
    return;
  }
  *drain = (struct drain){.next = drains->first, .list = drains, .timer = timer, .answer = answer, .context = context};
  drains->first = drain;
  loop_timer_start(timer, (uint64_t)(limit_ns / NS_PER_MS), 0);
}

bool drains_take(struct drains *drains, server_answer **answer, void **context) {
  struct drain *drain = drains->first;
  if (!drain) {
    return false;
  }
  detach(drain);
  *answer = drain->answer;
  *context = drain->context;
  free(drain);
  return true;
}
