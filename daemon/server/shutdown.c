/*
 * Every way in which the daemon ends, except for a dead GPU (gpu_fault.c): when it is asked to, when all its sources have
 * ended, and when its start failed. Each begins once; a stop that meets a reload waits for it.
 */
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/server/private.h"
#include "daemon/state/exec.h"
#include "daemon/state/fd_store.h"
#include "daemon/status/tracer.h"

/* -- the end --------------------------------------------------------------------------------------------------- */

static bool all_stopped(const struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (pipeline_state(server->pipelines[i]) != PIPELINE_STOPPED) {
      return false;
    }
  }
  return true;
}

static void on_http_closed(void *context) {
  struct server *server = context;
  server->http = NULL;
}

static void on_status_closed(void *context) {
  struct server *server = context;
  server->status = NULL;
}

void server_end(struct server *server) {
  if (server_hangs(server)) {
    server_end_hanging(server);
  }
  server->phase = SERVER_ENDING;
  tracer_stop(server->tracer);
  upgrade_cancel(server);
  if (server->status) {
    status_close(server->status, on_status_closed, server);
  }
  if (server->http) {
    status_close(server->http, on_http_closed, server);
  }
  supervision_stop(server);
  checkup_stop(server);
  signals_close(server);
  server->limit = loop_timer_close(server->limit);
  server->look = loop_timer_close(server->look);
  mailbox_close(&server->control);
}

/* -- stopping -------------------------------------------------------------------------------------------------- */

void server_cut(struct server *server) {
  server_look_for_hanging(server);
  if (server->reload && reload_is_at_sockets(server->reload)) {
    return; /* until the worker is done with them */
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_stop(server->pipelines[i]);
  }
}

/* The limit stays NULL from here on, for a reload that is over only now: see server_on_reloaded(). */
static void on_limit(void *context) {
  struct server *server = context;
  server->limit = loop_timer_close(server->limit);
  server_look_for_hanging(server);
  if (!server->reload || !fd_store_is_there()) { /* else all of it is left to the next process then */
    server_cut(server);
  }
}

void server_limit(struct server *server, loop_callback *act, uint64_t milliseconds) {
  loop_timer_close(server->limit);
  server->limit = loop_timer_new(&server->loop, act, server);
  if (server->limit) {
    loop_timer_start(server->limit, milliseconds, 0);
  } else {
    act(server);
  }
}

static void stop_pipelines(struct server *server) {
  server->phase = SERVER_STOPPING;
  if (all_stopped(server)) {
    server_end(server);
    return;
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_quiesce(server->pipelines[i], true);
  }
}

/* -- leaving: where another process goes on with everything ------------------------------------------------------- */

static void leave(struct server *server) {
  struct failure failure;
  server->limit = loop_timer_close(server->limit);
  server->leaving = false; /* once: if it fails, what was told meanwhile does not begin it again */
  exec_use_reserve();
  server_leave(server, "the service was stopped or restarted", &failure);
  exec_reserve();
  log_event(LOG_FAILED, NULL, "connections cannot be left to the next process: %s%s%s", failure.text,
            failure.remedy[0] ? "; " : "", failure.remedy);
  if (server->pipeline_count == 0) {
    server_end(server);
  }
  server_cut(server);
}

static void on_leaving_limit(void *context) { leave(context); }

static void leave_if_quiet(struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (!pipeline_is_quiet(server->pipelines[i])) {
      return;
    }
  }
  leave(server);
}

static void prepare_to_leave(struct server *server) {
  server->phase = SERVER_STOPPING;
  server->leaving = true;
  server_limit(server, on_leaving_limit, (uint64_t)(server->config->drain_timeout_ns / NS_PER_MS));
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_quiesce_to_leave(server->pipelines[i]);
  }
  if (server->pipeline_count == 0) {
    leave(server);
  }
}

static void end_pipelines(struct server *server) {
  if (fd_store_is_there()) {
    prepare_to_leave(server);
  } else {
    stop_pipelines(server);
  }
}

static void begin_stop(struct server *server) {
  server->look = loop_timer_close(server->look);
  server_limit(server, on_limit, (uint64_t)(server->config->drain_timeout_ns / NS_PER_MS));
  if (server->reload) {
    reload_cancel(server->reload);
  } else if (server->phase == SERVER_RUNNING) {
    end_pipelines(server);
  }
}

/* -- being asked to ------------------------------------------------------------------------------------------------ */

void server_stop(struct server *server, const char *why) {
  if (server->phase == SERVER_FAULTED) {
    return; /* it ends as fast as it can */
  }
  if (server->stop_wanted) {
    if (server->phase == SERVER_STOPPING) {
      log_event(LOG_STOPPING, NULL, "%s again: stopping without finishing", why);
      if (server->leaving) {
        leave(server);
      } else {
        server_cut(server);
      }
    }
    return;
  }
  server->stop_wanted = true;
  log_event(LOG_STOPPING, NULL, "%s: finishing what is in flight, for at most %.3g s", why,
            (double)server->config->drain_timeout_ns / (double)NS_PER_S);
  systemd_stopping("finishing what is in flight");
  if (server->phase != SERVER_STARTING) { /* else on_prepared() ends it, or server_go_on_ending() goes on from here */
    begin_stop(server);
  } else {
    server_look_for_hanging(server);
  }
}

static bool all_ended(const struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (!pipeline_has_ended(server->pipelines[i])) {
      return false;
    }
  }
  return server->pipeline_count > 0;
}

/* All input has come: results are finished however long that takes, since nobody asked for an end. */
static void end_of_input(struct server *server) {
  if (server->phase == SERVER_RUNNING && !server->reload && all_ended(server)) {
    log_event(LOG_STOPPING, NULL, "all sources have ended: finishing what is in flight");
    systemd_stopping("all sources have ended");
    stop_pipelines(server);
  }
}

static void reload_at_once(struct server *server) {
  if (server->reload_at_once && !server->reload && server->phase == SERVER_RUNNING && !server->stop_wanted) {
    server->reload_at_once = false;
    server_reload(server, answer_nobody, NULL);
  }
}

void server_go_on_ending(struct server *server) {
  if (server->stop_wanted) {
    begin_stop(server);
  } else if (server->stops_again) {
    server_stop(server, "a signal before");
  } else {
    end_of_input(server);
  }
  reload_at_once(server);
}

/* -- failures -------------------------------------------------------------------------------------------------- */

void server_fail(struct server *server, const struct failure *failure) {
  log_event(LOG_FAILED, NULL, "%s%s%s", failure->text, failure->remedy[0] ? "; " : "", failure->remedy);
  server->exit_status = failure->status;
  server->stop_wanted = true;
  if (server->phase == SERVER_STARTING) {
    server_end(server);
  } else {
    server->phase = SERVER_STOPPING;
    server_cut(server);
    if (all_stopped(server)) { /* none has started, or there is none */
      server_end(server);
    }
  }
}

void server_on_reloaded(struct server *server) {
  bool late = !server->limit; /* the time was over before the reload was: what it has started has none left */
  if (server->phase == SERVER_RUNNING && server->stop_wanted) {
    end_pipelines(server);
    if (late && server->leaving) {
      leave(server);
    } else if (late) {
      server_cut(server);
    }
  } else {
    end_of_input(server);
  }
  if (server->unanswered) {
    server_answer_fault(server);
  }
  reload_at_once(server);
}

/* -- events of pipelines ----------------------------------------------------------------------------------------- */

static void on_gone(struct server *server) {
  if (!all_stopped(server)) {
    return;
  }
  if (server->phase == SERVER_STOPPING) {
    server_end(server);
  } else if (server->phase == SERVER_FAULTED) {
    server_end_after_fault(server);
  }
}

/* The next image finds out by itself; this one hears of it if there is none. */
static void hear_later(struct server *server, struct pipeline *pipeline, enum pipeline_event event, const struct fault *fault) {
  struct unheard **end = &server->unheard;
  while (*end) {
    end = &(*end)->next;
  }
  *end = calloc(1, sizeof **end);
  if (*end) {
    **end = (struct unheard){.pipeline = pipeline, .event = event, .fault = fault};
  }
}

void server_hear(struct server *server) {
  while (server->unheard) {
    struct unheard *first = server->unheard;
    server->unheard = first->next;
    server_on_pipeline(server, first->pipeline, first->event, first->fault);
    free(first);
  }
}

void server_on_pipeline(void *context, struct pipeline *pipeline, enum pipeline_event event, const struct fault *fault) {
  struct server *server = context;
  if (server->handing_over) {
    hear_later(server, pipeline, event, fault);
    return;
  }
  if (server_on_hanging(server, pipeline, event)) {
    return;
  }
  if (event == PIPELINE_GPU_FAULT) {
    server_fault(server, fault);
  } else if (event == PIPELINE_CHANGED) {
    server_note_roster(server);
  } else if (server->leaving && event == PIPELINE_QUIET) {
    leave_if_quiet(server);
  } else if (server->reload && server->phase == SERVER_RUNNING) {
    reload_on_pipeline(server->reload, pipeline, event);
  } else if (event == PIPELINE_GONE) {
    on_gone(server);
  } else if (event == PIPELINE_ENDED) {
    end_of_input(server);
  }
}
