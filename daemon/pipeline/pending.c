#include "daemon/pipeline/pending.h"

#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/measure/clock.h"

struct pending_request {
  struct pending_request *next;
  struct pending *list;
  struct loop_timer *timer;
  server_answer *answer;
  void *context;
};

static void detach(struct pending_request *request) {
  struct pending_request **link = &request->list->first;
  while (*link != request) {
    link = &(*link)->next;
  }
  *link = request->next;
  loop_timer_close(request->timer);
}

static void on_expired(void *context) {
  struct pending_request *request = context;
  struct pending *list = request->list;
  detach(request);
  list->expired(list->owner, request->answer, request->context);
  free(request);
}

bool pending_add(struct pending *pending, int64_t limit_ns, server_answer *answer, void *context) {
  struct pending_request *request = calloc(1, sizeof *request);
  struct loop_timer *timer = request ? loop_timer_new(pending->loop, on_expired, request) : NULL;
  if (!timer) {
    free(request);
    answer_error(answer, context, 503, NULL, "not enough memory to wait for this");
    return false;
  }
  *request =
      (struct pending_request){.next = pending->first, .list = pending, .timer = timer, .answer = answer, .context = context};
  pending->first = request;
  loop_timer_start(timer, (uint64_t)(limit_ns / NS_PER_MS), 0);
  return true;
}

bool pending_take(struct pending *pending, server_answer **answer, void **context) {
  struct pending_request *request = pending->first;
  if (!request) {
    return false;
  }
  detach(request);
  *answer = request->answer;
  *context = request->context;
  free(request);
  return true;
}
