/*
 * A pipeline that waits. The machine refuses something that its configuration names: a disk is full, a folder is not mounted,
 * no descriptor is left. That is no mistake in the configuration and no reason to keep other pipelines from starting. The
 * pipeline is WAITING instead: it has no sessions, no memory and no sockets, so that clients find nobody and try again, as
 * before a start.
 *
 * Every try makes the pipeline anew beside the one that waits, on a worker thread (server/waiting.c). One that can be prepared
 * takes its place. The pause between two tries grows from a second to a minute.
 *
 * A pipeline that was handed over never waits like this, since it has connections: what it cannot open is opened later, while
 * it goes on (outputs_late.c).
 */
#include "daemon/base/log.h"
#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"

#define SHORTEST NS_PER_S
#define LONGEST  (60 * NS_PER_S)

bool pipeline_wait(struct pipeline *pipeline, const struct failure *failure) {
  struct inputs *none = inputs_none(pipeline->config);
  if (!none) {
    return false;
  }
  pipeline_release(pipeline);
  pipeline->inputs = none;
  pipeline->wait.pause = SHORTEST;
  pipeline->wait.next = clock_now() + SHORTEST;
  if (pipeline->state == PIPELINE_STARTING) {
    pipeline_move(pipeline, HAPPENS_WAIT);
  }
  trouble_note(&pipeline->trouble, clock_now(), failure->remedy, "it waits: %s", failure->text);
  log_event(LOG_WAITS, pipeline->config->name, "it waits, and is tried again and again: %s; %s", failure->text,
            failure->remedy);
  return true;
}

int64_t pipeline_next_try(const struct pipeline *pipeline) {
  return pipeline->state == PIPELINE_WAITING ? pipeline->wait.next : INT64_MAX;
}

void pipeline_wait_on(struct pipeline *pipeline, const struct failure *failure) {
  struct pipeline_wait *wait = &pipeline->wait;
  wait->pause = wait->pause < LONGEST / 2 ? 2 * wait->pause : LONGEST;
  wait->next = clock_now() + wait->pause;
  trouble_note(&pipeline->trouble, clock_now(), failure->remedy, "it waits: %s", failure->text);
}

void pipeline_try_soon(struct pipeline *pipeline) {
  pipeline->wait.pause = SHORTEST;
  pipeline->wait.next = 0;
}

void pipeline_replace_waiting(struct pipeline *pipeline, const struct pipeline *waiting) {
  pipeline->wait.then = waiting->wait.then;
  pipeline->links = waiting->links;
}

bool pipeline_continues(const struct pipeline *pipeline) { return pipeline->continues; }
