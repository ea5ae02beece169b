/*
 * The server's phases. What happens to the daemon as a whole, be it a signal, the end of a reload or a lost worker, comes here
 * as an event; the table near the end of this file says what each event does in each phase, and where that may lead.
 *
 * Everything else in this folder stands below this file: it does its part, reports through `server->report`, and calls nothing
 * here. A phase is only ever left for a later one. A stop that meets a reload waits for it: until then the phase is
 * SERVER_RUNNING with `stop_wanted`.
 */
#include <assert.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/server/private.h"
#include "daemon/state/exec.h"

typedef void server_act(struct server *server, const struct server_cause *cause);

/* A field of the table: what an event does in a phase, and the phases that this may lead to, as bits. */
struct server_step {
  server_act *act; /* NULL: nothing */
  unsigned to;
};

#define TO(phase) (1U << (phase))

static void enter(struct server *server, enum server_phase phase) {
  assert((server->step->to & TO(phase)) != 0);
  server->phase = phase;
}

/* -- limits ---------------------------------------------------------------------------------------------------------- */

static void on_limit(void *context) {
  struct server *server = context;
  server->report(server, SERVER_LATE, NULL);
}

static void limit_drain(struct server *server) {
  loop_timer_close(server->limit);
  server->limit = loop_timer_new(&server->loop, on_limit, server);
  if (server->limit) {
    loop_timer_start(server->limit, (uint64_t)(server->config->drain_timeout_ns / NS_PER_MS), 0);
  } else {
    on_limit(server);
  }
}

/* -- the end --------------------------------------------------------------------------------------------------------- */

static bool have_all_stopped(const struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (pipeline_state(server->pipelines[i]) != PIPELINE_STOPPED) {
      return false;
    }
  }
  return true;
}

/* No pipeline runs: closes every handle. The loop, and so the program, ends when libuv has let go of them. */
static void end_all(struct server *server) {
  if (server_hangs(server)) {
    server_end_hanging(server);
  }
  enter(server, SERVER_ENDING);
  server_close_handles(server);
}

/* Every pipeline stops without finishing. */
static void server_cut(struct server *server) {
  server_look_for_hanging(server);
  if (server->reload && reload_is_at_sockets(server->reload)) {
    return; /* after_reload() does it: a set-up thread is at the sockets of pipelines until then */
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_stop(server->pipelines[i]);
  }
}

static void stop_pipelines(struct server *server) {
  enter(server, SERVER_STOPPING);
  if (have_all_stopped(server)) {
    end_all(server);
    return;
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_quiesce(server->pipelines[i], true);
  }
}

/* -- leaving: another process will go on with everything ------------------------------------------------------------- */

static void leave_now(struct server *server) {
  struct failure failure;
  server->limit = loop_timer_close(server->limit);
  server->leaving = false; /* once: if it fails, what pipelines told meanwhile does not begin it again */
  exec_reserve(0);
  server_hand_over(server, HISTORY_RESTART, "the service was stopped or restarted", NULL, &failure);
  exec_reserve(EXEC_RESERVE);
  log_event(LOG_FAILED, NULL, "connections cannot be left to the next process: %s%s%s", failure.text,
            failure.remedy[0] ? "; " : "", failure.remedy);
  if (server->pipeline_count == 0) {
    end_all(server);
  }
  server_cut(server);
}

static void prepare_to_leave(struct server *server) {
  enter(server, SERVER_STOPPING);
  server->leaving = true;
  limit_drain(server);
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_quiesce_to_leave(server->pipelines[i]);
  }
  if (server->pipeline_count == 0) {
    leave_now(server);
  }
}

/* -- stops that were asked for --------------------------------------------------------------------------------------- */

static void end_pipelines(struct server *server) {
  if (systemd_keeps() > 0) {
    prepare_to_leave(server);
  } else {
    stop_pipelines(server);
  }
}

static void begin_stop(struct server *server) {
  server->look = loop_timer_close(server->look);
  limit_drain(server);
  if (server->reload) {
    reload_cancel(server->reload); /* SERVER_RELOADED goes on with the stop */
  } else if (server->phase == SERVER_RUNNING) {
    end_pipelines(server);
  }
}

static void want_stop(struct server *server, const char *why) {
  server->stop_wanted = true;
  log_event(LOG_STOPPING, NULL, "%s: finishing what is in flight, for at most %.3g s", why,
            (double)server->config->drain_timeout_ns / (double)NS_PER_S);
  systemd_stopping("finishing what is in flight");
}

/* The start goes on: where it is over, server_begin() ends the server, or server_go_on() stops it. */
static void stop_start(struct server *server, const struct server_cause *cause) {
  if (!server->stop_wanted) {
    want_stop(server, cause->why);
    server_look_for_hanging(server);
  }
}

static void server_stop(struct server *server, const struct server_cause *cause) {
  if (!server->stop_wanted) {
    want_stop(server, cause->why);
    begin_stop(server);
  }
}

/* The first signal may come while the server stops by itself, at the end of its input; another one cuts short. */
static void server_stop_again(struct server *server, const struct server_cause *cause) {
  if (!server->stop_wanted) {
    server_stop(server, cause);
    return;
  }
  log_event(LOG_STOPPING, NULL, "%s again: stopping without finishing", cause->why);
  if (server->leaving) {
    leave_now(server);
  } else {
    server_cut(server);
  }
}

/* The time of a stop is over. The limit stays NULL from here on, which tells after_reload() that the reload took longer. */
static void give_no_more_time(struct server *server, const struct server_cause *cause) {
  (void)cause;
  if (server->leaving) {
    leave_now(server);
    return;
  }
  server->limit = loop_timer_close(server->limit);
  server_look_for_hanging(server);
  if (!server->reload || systemd_keeps() == 0) { /* else all of it is left to the next process, once the reload is over */
    server_cut(server);
  }
}

/* -- stops that nobody asked for ------------------------------------------------------------------------------------- */

static bool have_all_ended(const struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    if (!pipeline_has_ended(server->pipelines[i])) {
      return false;
    }
  }
  return server->pipeline_count > 0;
}

/* Where all input has come, results are finished however long that takes, since nobody asked for an end. */
static void end_of_input(struct server *server) {
  if (server->phase == SERVER_RUNNING && !server->reload && have_all_ended(server)) {
    log_event(LOG_STOPPING, NULL, "all sources have ended: finishing what is in flight");
    systemd_stopping("all sources have ended");
    stop_pipelines(server);
  }
}

static void note_failed_start(struct server *server, const struct failure *failure) {
  log_event(LOG_FAILED, NULL, "%s%s%s", failure->text, failure->remedy[0] ? "; " : "", failure->remedy);
  server->exit_status = failure->status;
  server->stop_wanted = true;
}

static void server_fail(struct server *server, const struct server_cause *cause) {
  note_failed_start(server, cause->failure);
  end_all(server);
}

/* Some pipelines may run already. */
static void server_fail_late(struct server *server, const struct server_cause *cause) {
  note_failed_start(server, cause->failure);
  enter(server, SERVER_STOPPING);
  server_cut(server);
  if (have_all_stopped(server)) { /* none has started, or there is none */
    end_all(server);
  }
}

/* -- start and reloads ----------------------------------------------------------------------------------------------- */

static void server_begin(struct server *server, const struct server_cause *cause) {
  (void)cause;
  if (server->stop_wanted && !server->left) {
    end_all(server); /* a signal came meanwhile, and nothing has begun */
  } else {
    enter(server, SERVER_RUNNING);
    server_serve(server);
  }
}

static void reload_at_once(struct server *server) {
  if (server->reload_at_once && !server->reload && server->phase == SERVER_RUNNING && !server->stop_wanted) {
    server->reload_at_once = false;
    server_reload(server, answer_nobody, NULL);
  }
}

/* Takes up what the process before this one was at, and what came during the start. */
static void server_go_on(struct server *server, const struct server_cause *cause) {
  (void)cause;
  if (server->stop_wanted) {
    begin_stop(server);
  } else if (server->stops_again) {
    server->report(server, SERVER_STOP, &(struct server_cause){.why = "a signal before"});
  } else {
    end_of_input(server);
  }
  reload_at_once(server);
  upgrade_go_on(server);
}

static void after_reload(struct server *server, const struct server_cause *cause) {
  (void)cause;
  bool late = !server->limit; /* the time was over before the reload was: what the reload has started has none left */
  if (server->stop_wanted) {
    end_pipelines(server);
    if (late && server->leaving) {
      leave_now(server);
    } else if (late) {
      server_cut(server);
    }
  } else {
    end_of_input(server);
  }
  reload_at_once(server);
}

static void after_exchange(struct server *server, const struct server_cause *cause) {
  (void)cause;
  server_obey_postponed(server);
}

/* -- events of pipelines --------------------------------------------------------------------------------------------- */

static void tell_reload(struct server *server, const struct server_cause *cause) {
  if (server->reload) {
    reload_on_pipeline(server->reload, cause->pipeline, cause->event);
  } else if (cause->event == PIPELINE_ENDED) {
    end_of_input(server);
  }
}

static void leave_if_quiet(struct server *server, const struct server_cause *cause) {
  (void)cause;
  bool quiet = server->leaving;
  for (unsigned i = 0; quiet && i < server->pipeline_count; i++) {
    quiet = pipeline_is_quiet(server->pipelines[i]);
  }
  if (quiet) {
    leave_now(server);
  }
}

static void end_if_gone(struct server *server, const struct server_cause *cause) {
  (void)cause;
  if (have_all_stopped(server)) {
    end_all(server);
  }
}

static void on_pipeline(void *context, struct pipeline *pipeline, enum pipeline_event event) {
  static const enum server_event events[] = {[PIPELINE_QUIET] = SERVER_PIPELINE_QUIET,
                                             [PIPELINE_GONE] = SERVER_PIPELINE_GONE,
                                             [PIPELINE_ENDED] = SERVER_PIPELINE_ENDED,
                                             [PIPELINE_RESTAGED] = SERVER_PIPELINE_RESTAGED};
  struct server *server = context;
  if (server->handing_over) {
    server_hear_later(server, pipeline, event);
  } else if (server_on_hanging(server, pipeline, event)) {
    return;
  } else {
    server->report(server, events[event], &(struct server_cause){.pipeline = pipeline, .event = event});
  }
}

/* -- the table ------------------------------------------------------------------------------------------------------- */

/* Nothing follows where a field is empty. ENDING ends when the loop has no handle left. */
static const struct server_step table[SERVER_PHASES][SERVER_EVENTS] = {
    [SERVER_STARTING] = {[SERVER_PREPARED] = {server_begin, TO(SERVER_RUNNING) | TO(SERVER_ENDING)},
                         [SERVER_FAILED] = {server_fail, TO(SERVER_ENDING)},
                         [SERVER_STOP] = {stop_start, 0}},
    [SERVER_RUNNING] = {[SERVER_SERVES] = {server_go_on, TO(SERVER_STOPPING) | TO(SERVER_ENDING)},
                        [SERVER_FAILED] = {server_fail_late, TO(SERVER_STOPPING) | TO(SERVER_ENDING)},
                        [SERVER_STOP] = {server_stop, TO(SERVER_STOPPING) | TO(SERVER_ENDING)},
                        [SERVER_LATE] = {give_no_more_time, 0},
                        [SERVER_EXCHANGED] = {after_exchange, 0},
                        [SERVER_RELOADED] = {after_reload, TO(SERVER_STOPPING) | TO(SERVER_ENDING)},
                        [SERVER_PIPELINE_QUIET] = {tell_reload, 0},
                        [SERVER_PIPELINE_GONE] = {tell_reload, 0},
                        [SERVER_PIPELINE_ENDED] = {tell_reload, TO(SERVER_STOPPING) | TO(SERVER_ENDING)},
                        [SERVER_PIPELINE_RESTAGED] = {tell_reload, 0},
                        [SERVER_FAULT] = {server_fault, 0}},
    [SERVER_STOPPING] = {[SERVER_FAILED] = {server_fail_late, TO(SERVER_STOPPING) | TO(SERVER_ENDING)},
                         [SERVER_STOP] = {server_stop_again, TO(SERVER_ENDING)},
                         [SERVER_LATE] = {give_no_more_time, TO(SERVER_ENDING)},
                         [SERVER_PIPELINE_QUIET] = {leave_if_quiet, TO(SERVER_ENDING)},
                         [SERVER_PIPELINE_GONE] = {end_if_gone, TO(SERVER_ENDING)},
                         [SERVER_FAULT] = {server_fault, 0}},
};

/* An event may bring forth others before it is done with; each is judged by the phase that it finds. */
static void report(struct server *server, enum server_event event, const struct server_cause *cause) {
  const struct server_step *outer = server->step;
  server->step = &table[server->phase][event];
  if (server->step->act) {
    server->step->act(server, cause);
  }
  server->step = outer;
}

void server_follow_phases(struct server *server) {
  server->report = report;
  server->on_pipeline = on_pipeline;
}
