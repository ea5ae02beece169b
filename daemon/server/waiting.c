/*
 * Pipelines that wait for the machine are tried again, one after the other, on a worker thread: each try makes the pipeline
 * anew beside the one that waits, so that nothing of that changes until the new one is prepared and takes its place.
 *
 * A reload exchanges pipelines too. It waits for a try that is under way, but not for long, as a disk may not answer: a try
 * that a reload has not waited for is given up, and what it made goes when it is over.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/server/config_files.h"
#include "daemon/server/private.h"

#define PATIENCE (5 * NS_PER_S)

enum { LOOK_MS = 500, SPARE = 16, MOST_STARTED = 256 };

struct attempt {
  struct server *server;
  struct pipeline *waiting, *made; /* the second takes the place of the first */
  const struct config *config;
  int64_t began;
  bool given_up;
  bool worked;
  struct failure failure;
};

/* -- descriptors that are left --------------------------------------------------------------------------------------- */

/* The acceptors of a pipeline take two when it starts. */
bool waiting_prepare(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance, unsigned to_start,
                     struct failure *failure) {
  int spare[SPARE + 2 * MOST_STARTED];
  unsigned count = 0, wanted = SPARE + 2 * (to_start < MOST_STARTED ? to_start : MOST_STARTED);
  while (count < wanted && (spare[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) >= 0) {
    count++;
  }
  bool prepared = pipeline_prepare(pipeline, inheritance, failure);
  while (count > 0) {
    close(spare[--count]);
  }
  return prepared;
}

/* -- one try --------------------------------------------------------------------------------------------------------- */

static void run_attempt(void *context) {
  struct attempt *attempt = context;
  attempt->worked = waiting_prepare(attempt->made, &(struct pipeline_inheritance){0}, 1, &attempt->failure) &&
                    config_files_distinct(attempt->config, &attempt->failure);
  if (!attempt->worked) {
    pipeline_release(attempt->made);
  }
}

static void put_in_place(struct attempt *attempt) {
  struct server *server = attempt->server;
  struct failure failure;
  const char *name = pipeline_config(attempt->made)->name;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (server->pipelines[i] == attempt->waiting) {
      server->pipelines[i] = attempt->made;
    }
  }
  pipeline_replace_waiting(attempt->made, attempt->waiting);
  if (pipeline_start(attempt->made, &failure)) {
    log_event(LOG_RESUMED, name, "runs now: what it waited for is there");
  } else {
    log_event(LOG_FAILED, name, "it cannot start yet, and is tried every two seconds: %s", failure.text);
  }
  server_note(server);
  pipeline_release(attempt->waiting);
  pipeline_free(attempt->waiting);
}

static void on_attempted(void *context) {
  struct attempt *attempt = context;
  struct server *server = attempt->server;
  bool may = !attempt->given_up && server->phase == SERVER_RUNNING && !server->reload && !server->stop_wanted &&
             pipeline_state(attempt->waiting) == PIPELINE_WAITING;
  server->attempt = NULL;
  server->tried = NULL;
  if (may && attempt->worked) {
    put_in_place(attempt);
  } else {
    if (may) {
      pipeline_wait_longer(attempt->waiting, &attempt->failure);
    }
    pipeline_release(attempt->made);
    pipeline_free(attempt->made);
  }
  free(attempt);
  server_sweep(server);
}

/* Without memory for a try there is another one. */
static void begin_attempt(struct server *server, struct pipeline *pipeline) {
  struct attempt *attempt = calloc(1, sizeof *attempt);
  const struct pipeline_setup setup = server_pipeline_setup(server);
  struct failure failure;
  struct pipeline *made = attempt ? pipeline_new(&setup, pipeline_config(pipeline), &failure) : NULL;
  if (made) {
    *attempt =
        (struct attempt){.server = server, .waiting = pipeline, .made = made, .config = server->config, .began = clock_now()};
    server->attempt = attempt;
    server->tried = made;
    if (loop_job(&server->loop, run_attempt, on_attempted, attempt)) {
      return;
    }
    server->attempt = NULL;
    server->tried = NULL;
  }
  pipeline_free(made);
  free(attempt);
}

/* -- when ------------------------------------------------------------------------------------------------------------ */

static void on_check(void *context) {
  struct server *server = context;
  struct pipeline *next = NULL;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    int64_t first = next ? pipeline_next_try(next) : INT64_MAX;
    next = pipeline_next_try(server->pipelines[i]) < first ? server->pipelines[i] : next;
  }
  bool may = server->phase == SERVER_RUNNING && !server->reload && !server->attempt && !server->stop_wanted;
  if (next && may && pipeline_next_try(next) <= clock_now()) {
    begin_attempt(server, next);
  } else if (!next) {
    loop_timer_stop(server->tries);
  }
}

bool waiting_follow(struct server *server) {
  server->tries = server->tries ? server->tries : loop_timer_new(&server->loop, on_check, server);
  if (server->tries) {
    loop_timer_start(server->tries, LOOK_MS, LOOK_MS);
  }
  return server->tries != NULL;
}

void waiting_stop(struct server *server) { server->tries = loop_timer_close(server->tries); }

bool waiting_is_tried(const struct server *server) {
  struct attempt *attempt = server->attempt;
  if (attempt && clock_now() - attempt->began > PATIENCE) {
    attempt->given_up = true;
  }
  return attempt && !attempt->given_up;
}

void waiting_try_all(struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_try_soon(server->pipelines[i]);
  }
  waiting_follow(server);
}
