/*
 * The states of a pipeline. One table says which event leads where, and only pipeline_move() changes the state. An event that
 * the table does not have in a state is a bug and asserts. Events that keep the state are in the table as well.
 *
 * Requests that wait for a state are also here, because they are answered when the state is reached.
 */
#include <assert.h>
#include <stdlib.h>

#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"

const char *const pipeline_state_names[] = {"starting", "running", "paused",   "draining", "drained",
                                            "failed",   "waiting", "stopping", "stopped"};

/* A cell: 0 is no transition, BACK the state to return to, otherwise the state plus 1. */
#define TO(state) (PIPELINE_##state + 1)
enum { BACK = PIPELINE_STOPPED + 2 };

static const unsigned char transitions[PIPELINE_STOPPED + 1][PIPELINE_HAPPENINGS] = {
    [PIPELINE_STARTING] = {[HAPPENS_START] = TO(RUNNING),
                           [HAPPENS_CONTINUE] = BACK, /* the state in the previous process: pipeline->continues_as */
                           [HAPPENS_WAIT] = TO(WAITING),
                           [HAPPENS_IDLE] = TO(STARTING),
                           [HAPPENS_QUIESCE] = TO(STOPPING),
                           [HAPPENS_STOP] = TO(STOPPING)},
    [PIPELINE_RUNNING] = {[HAPPENS_FAIL] = TO(FAILED),
                          [HAPPENS_PAUSE] = TO(PAUSED),
                          [HAPPENS_RESUME] = TO(RUNNING),
                          [HAPPENS_DRAIN] = TO(DRAINING),
                          [HAPPENS_IDLE] = TO(RUNNING),
                          [HAPPENS_QUIESCE] = TO(STOPPING),
                          [HAPPENS_STOP] = TO(STOPPING)},
    [PIPELINE_PAUSED] = {[HAPPENS_FAIL] = TO(FAILED),
                         [HAPPENS_PAUSE] = TO(PAUSED),
                         [HAPPENS_RESUME] = TO(RUNNING),
                         [HAPPENS_DRAIN] = TO(DRAINING),
                         [HAPPENS_IDLE] = TO(PAUSED),
                         [HAPPENS_QUIESCE] = TO(STOPPING),
                         [HAPPENS_STOP] = TO(STOPPING)},
    [PIPELINE_DRAINING] = {[HAPPENS_FAIL] = TO(FAILED),
                           [HAPPENS_PAUSE] = TO(DRAINING),
                           [HAPPENS_RESUME] = TO(RUNNING),
                           [HAPPENS_DRAIN] = TO(DRAINING),
                           [HAPPENS_IDLE] = TO(DRAINED),
                           [HAPPENS_QUIESCE] = TO(STOPPING),
                           [HAPPENS_STOP] = TO(STOPPING)},
    [PIPELINE_DRAINED] = {[HAPPENS_FAIL] = TO(FAILED),
                          [HAPPENS_PAUSE] = TO(DRAINED),
                          [HAPPENS_RESUME] = TO(RUNNING),
                          [HAPPENS_DRAIN] = TO(DRAINED),
                          [HAPPENS_IDLE] = TO(DRAINED),
                          [HAPPENS_QUIESCE] = TO(STOPPING),
                          [HAPPENS_STOP] = TO(STOPPING)},
    [PIPELINE_FAILED] = {[HAPPENS_FAIL] = TO(FAILED),
                         [HAPPENS_PAUSE] = TO(FAILED), /* it accepts no frames anyway until it is resumed */
                         [HAPPENS_RESUME] = TO(RUNNING),
                         [HAPPENS_DRAIN] = TO(FAILED),
                         [HAPPENS_IDLE] = TO(FAILED),
                         [HAPPENS_QUIESCE] = TO(STOPPING),
                         [HAPPENS_STOP] = TO(STOPPING)},
    [PIPELINE_WAITING] = {[HAPPENS_PAUSE] = TO(WAITING), /* it accepts no frames anyway, and will start paused */
                          [HAPPENS_RESUME] = TO(WAITING),
                          [HAPPENS_DRAIN] = TO(WAITING),
                          [HAPPENS_IDLE] = TO(WAITING),
                          [HAPPENS_QUIESCE] = TO(STOPPING),
                          [HAPPENS_STOP] = TO(STOPPING)},
    [PIPELINE_STOPPING] = {[HAPPENS_IDLE] = TO(STOPPING),
                           [HAPPENS_QUIESCE] = TO(STOPPING),
                           [HAPPENS_UNQUIESCE] = BACK, /* the state before it was quiesced: pipeline->before */
                           [HAPPENS_STOP] = TO(STOPPING),
                           [HAPPENS_END] = TO(STOPPED)},
    [PIPELINE_STOPPED] = {[HAPPENS_IDLE] = TO(STOPPED)},
};

bool pipeline_may_move(enum pipeline_state state, enum pipeline_happening happening) {
  return transitions[state][happening] != 0;
}

bool pipeline_move(struct pipeline *pipeline, enum pipeline_happening happening) {
  enum pipeline_state from = pipeline->state;
  unsigned cell = transitions[from][happening];
  assert(cell != 0);
  if (cell != BACK) {
    pipeline->state = (enum pipeline_state)(cell - 1);
  } else {
    pipeline->state = from == PIPELINE_STARTING ? pipeline->continues_as : pipeline->before;
  }
  if (pipeline->state == PIPELINE_STOPPING && from != PIPELINE_STOPPING) {
    pipeline->before = from;
  }
  return pipeline->state != from;
}

/* -- requests that wait for a state ------------------------------------------------------------------------------------ */

struct pending_request {
  struct pending_request *next;
  struct pending_requests *list;
  struct loop_timer *timer;
  server_answer *answer;
  void *context;
};

static void pending_detach(struct pending_request *request) {
  struct pending_request **link = &request->list->first;
  while (*link != request) {
    link = &(*link)->next;
  }
  *link = request->next;
  loop_timer_close(request->timer);
}

static void pending_on_expired(void *context) {
  struct pending_request *request = context;
  struct pending_requests *list = request->list;
  pending_detach(request);
  list->expired(list->owner, request->answer, request->context);
  free(request);
}

bool pending_add(struct pending_requests *pending, int64_t limit_ns, server_answer *answer, void *context) {
  struct pending_request *request = calloc(1, sizeof *request);
  struct loop_timer *timer = request ? loop_timer_new(pending->loop, pending_on_expired, request) : NULL;
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

bool pending_take(struct pending_requests *pending, server_answer **answer, void **context) {
  struct pending_request *request = pending->first;
  if (!request) {
    return false;
  }
  pending_detach(request);
  *answer = request->answer;
  *context = request->context;
  free(request);
  return true;
}
