/*
 * Waiting pipelines. The machine refuses something that the configuration names: a disk is full, a folder is not mounted, no
 * descriptor is left. That is no mistake in the configuration, and must not stop other pipelines from starting. So the pipeline
 * becomes WAITING. It has no sessions, memory or sockets, so clients cannot connect and try again, as before a start.
 *
 * Each try makes a new pipeline next to the waiting one, on a set-up thread (server/waiting.c). If it can be prepared it
 * replaces the waiting one. The pause between tries grows from a second to a minute.
 *
 * A pipeline that was taken over never waits like this, because it has connections. A file that it cannot open is opened later
 * while it runs (outputs_late.c).
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

void pipeline_wait_longer(struct pipeline *pipeline, const struct failure *failure) {
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
