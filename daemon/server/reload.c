/*
 * A reload: the running configuration becomes another one, or stays as it is.
 *
 *   load      the file is read and checked
 *   prepare   pipelines that come take memory and device and open what is not in use
 *   quiesce   pipelines that leave finish what they have, for at most `drain_timeout`
 *   inherit   what leaving pipelines used until now is opened: the last step that may fail
 *   replace   leaving pipelines stop, their listeners move over, and the new ones start; pipelines of which only the stages
 *             differ go on with the other ones, between two frames
 *   release   what leaving pipelines took is given back
 *
 * A pipeline that leaves and waits for a file that does not answer is left alone (hanging.c).
 *
 * Whatever may block runs on a worker thread. Until `replace` every step can be taken back, so that a failure leaves things
 * as they were. Pipelines whose canonical text is the same are never touched. What follows for the server is phases.c's to say.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/device/models.h"
#include "daemon/server/config_diff.h"
#include "daemon/server/footprint.h"
#include "daemon/server/private.h"
#include "daemon/server/swap.h"

enum { LOOK_MS = 100 }; /* how often it is looked whether what is waited for is there, or will never be */

enum reload_step { RELOAD_PREPARING, RELOAD_QUIESCING, RELOAD_INHERITING, RELOAD_REPLACING, RELOAD_RELEASING };

struct reload {
  struct server *server;
  server_answer *answer;
  void *context;
  enum reload_step step;
  struct config_errors *errors;
  struct generation *generation; /* the new configuration, until it is in force */
  struct swap *swap;
  struct loop_timer *limit;
  bool cancelled;
  uint64_t faults;        /* that there had been when its pipelines began to be prepared */
  bool is_lost, is_again; /* a device lost its worker since; they are prepared once more */
  bool worked;            /* whether the last job of a worker did, */
  struct failure failure; /* and if not, why */
};

/* -- the end ----------------------------------------------------------------------------------------------------- */

static void reload_end(struct reload *reload, int http_status, json_t *body) {
  struct server *server = reload->server;
  server->reload = NULL;
  server_note(server); /* the last note says that a reload is under way */
  swap_free(reload->swap);
  server_sweep(server);
  server_discard(server, reload->generation);
  config_errors_free(reload->errors);
  loop_timer_close(reload->limit);
  reload->answer(reload->context, http_status, body);
  free(reload);
  if (!server->stop_wanted) {
    supervision_say_ready(server);
  }
  waiting_try_all(server);
  server->report(server, SERVER_RELOADED, NULL);
}

/* Of many errors in the file the log gets the first line of the first one, and how many there are. */
static void reload_refuse(struct reload *reload, int http_status, const char *text, const char *remedy) {
  char more[64] = "", *kept = reload->server->reload_refusal;
  unsigned errors = config_errors_count(reload->errors);
  if (errors > 1) {
    snprintf(more, sizeof more, " (the first of %u errors, see framed --check)", errors);
  }
  reload->server->reload_failures++;
  snprintf(kept, sizeof reload->server->reload_refusal, "%.*s%s%s%s", (int)strcspn(text, "\n"), text, more,
           remedy[0] ? "; " : "", remedy);
  log_event(LOG_RELOAD_REFUSED, NULL, "nothing was changed: %s", kept);
  reload_end(reload, http_status, answer_error_document(text, remedy));
}

static void refuse_failure(struct reload *reload) {
  if (reload->cancelled) {
    reload_refuse(reload, 503, "the daemon is stopping", "");
  } else {
    reload_refuse(reload, reload->failure.status == EXIT_STATUS_CONFIG || reload->failure.passes ? 400 : 500,
                  reload->failure.text, reload->failure.remedy);
  }
}

/* Runs `work` on a worker thread if that can be, then `done` here. */
static void work_on(struct reload *reload, loop_callback *work, loop_callback *done) {
  if (!loop_job(&reload->server->loop, work, done, reload)) {
    work(reload);
    done(reload);
  }
}

static void release(void *context) { swap_release(((struct reload *)context)->swap); }

static void prepare_if_may(struct reload *reload);

static uint64_t count_faults(const struct reload *reload) { return reload->server->history.counts[HISTORY_FAULT]; }

/* Begins once more, when every device has a worker: new pipelines prepare their chains there at once. */
static void begin_again(struct reload *reload) {
  if (reload->cancelled) {
    refuse_failure(reload);
  } else if (recoveries_are_at_work(reload->server)) {
    loop_timer_start(reload->limit, LOOK_MS, 0);
  } else {
    reload->swap = swap_new(reload->server, reload->generation->config, &reload->failure);
    if (reload->swap) {
      prepare_if_may(reload);
    } else {
      refuse_failure(reload);
    }
  }
}

/* A device that lost its worker meanwhile, be it by a frame of another pipeline, is no reason to refuse the configuration. If
 * it happens again, what was being prepared may well be the cause. */
static void on_taken_back(void *context) {
  struct reload *reload = context;
  if (reload->is_lost && !reload->is_again && !reload->cancelled) {
    reload->swap = swap_free(reload->swap);
    reload->is_again = true;
    reload->step = RELOAD_PREPARING;
    begin_again(reload);
  } else {
    refuse_failure(reload);
  }
}

static void reload_take_back(struct reload *reload) {
  loop_timer_stop(reload->limit); /* giving back may take longer than `drain_timeout` */
  if (reload->step > RELOAD_PREPARING) {
    swap_unquiesce(reload->swap);
  }
  reload->step = RELOAD_RELEASING;
  work_on(reload, release, on_taken_back);
}

/* -- replace and release ------------------------------------------------------------------------------------------- */

static void on_released(void *context) {
  struct reload *reload = context;
  if (!reload->worked) {
    log_event(LOG_FAILED, NULL, "the configuration was reloaded, but not all of it runs, which is tried again: %s",
              reload->failure.text);
    reload_end(reload, 500, answer_error_document(reload->failure.text, "wait until it runs: it is tried every two seconds"));
    return;
  }
  json_t *document = swap_document(reload->swap);
  char places[48] = "";
  if (json_array_size(json_object_get(document, "in_place")) > 0) {
    snprintf(places, sizeof places, " (%zu in place)", json_array_size(json_object_get(document, "in_place")));
  }
  for (unsigned i = 0; i < reload->server->pipeline_count; i++) {
    pipeline_check_file(reload->server->pipelines[i]);
  }
  reload->server->reloads++;
  log_event(LOG_RELOADED, NULL, "configuration reloaded%s: pipelines %zu added, %zu removed, %zu changed%s, %zu unchanged",
            json_is_true(json_object_get(document, "same")) ? ", it is as it was" : "",
            json_array_size(json_object_get(document, "added")), json_array_size(json_object_get(document, "removed")),
            json_array_size(json_object_get(document, "changed")), places,
            json_array_size(json_object_get(document, "unchanged")));
  reload_end(reload, 200, document);
}

static void replace_if_gone(struct reload *reload) {
  if (!swap_is_exchanged(reload->swap)) {
    return;
  }
  loop_timer_stop(reload->limit);
  reload->step = RELOAD_RELEASING;
  models_log(reload->generation->config, reload->server->config);
  server_adopt(reload->server, reload->generation);
  reload->generation = NULL;
  reload->server->reload_refusal[0] = '\0';
  log_set_level(reload->server->config->log_level);
  http_address_follow(reload->server);
  reload->worked = swap_start_new(reload->swap, &reload->failure);
  server_note(reload->server); /* before the memory of the old pipelines goes, which the last state still names */
  reload->server->report(reload->server, SERVER_EXCHANGED, NULL);
  work_on(reload, release, on_released);
}

static void replace(struct reload *reload) {
  reload->step = RELOAD_REPLACING;
  swap_stop_old(reload->swap);
  swap_restage(reload->swap);
  swap_let_hang(reload->swap);
  loop_timer_start(reload->limit, LOOK_MS, LOOK_MS);
  replace_if_gone(reload);
}

/* -- inherit ------------------------------------------------------------------------------------------------------- */

static void prepare_inherited(void *context) {
  struct reload *reload = context;
  reload->worked = swap_prepare_inherited(reload->swap, &reload->failure);
}

static void on_inherited(void *context) {
  struct reload *reload = context;
  if (reload->worked && !reload->cancelled) {
    replace(reload);
  } else {
    reload_take_back(reload);
  }
}

static void inherit(struct reload *reload) {
  reload->step = RELOAD_INHERITING;
  loop_timer_stop(reload->limit);
  work_on(reload, prepare_inherited, on_inherited);
}

/* -- quiesce ------------------------------------------------------------------------------------------------------- */

static void quiesce(struct reload *reload) {
  reload->step = RELOAD_QUIESCING;
  swap_quiesce(reload->swap);
  if (swap_is_quiet(reload->swap)) {
    inherit(reload);
  } else {
    loop_timer_start(reload->limit, (uint64_t)(reload->server->config->drain_timeout_ns / NS_PER_MS), 0);
  }
}

/* -- prepare ------------------------------------------------------------------------------------------------------- */

static void prepare(void *context) {
  struct reload *reload = context;
  reload->worked = swap_prepare(reload->swap, &reload->failure);
}

static void on_prepared(void *context) {
  struct reload *reload = context;
  if (reload->worked && !reload->cancelled) {
    quiesce(reload);
  } else {
    reload->is_lost = count_faults(reload) != reload->faults || engine_lost(reload->server->engine) != NO_DEVICE;
    reload_take_back(reload);
  }
}

/* A session whose memory is made anew cannot get other stages meanwhile. */
static void prepare_if_may(struct reload *reload) {
  loop_timer_stop(reload->limit);
  if (reload->cancelled) {
    reload_take_back(reload);
  } else if (!waiting_is_tried(reload->server) && !recoveries_are_at_work(reload->server) && swap_may_prepare(reload->swap)) {
    reload->faults = count_faults(reload);
    work_on(reload, prepare, on_prepared);
  } else {
    loop_timer_start(reload->limit, LOOK_MS, 0);
  }
}

/* -- what happens meanwhile ----------------------------------------------------------------------------------------- */

static void on_limit(void *context) {
  struct reload *reload = context;
  if (!reload->swap) {
    begin_again(reload);
  } else if (reload->step == RELOAD_PREPARING) {
    prepare_if_may(reload);
  } else if (reload->step == RELOAD_REPLACING) {
    swap_let_hang(reload->swap);
    replace_if_gone(reload);
  } else if (swap_may_open(reload->swap, &reload->failure)) {
    inherit(reload);
  } else {
    reload_take_back(reload);
  }
}

void reload_on_pipeline(struct reload *reload, struct pipeline *pipeline, enum pipeline_event event) {
  if (event == PIPELINE_QUIET && reload->step == RELOAD_QUIESCING) {
    swap_on_quiet(reload->swap, pipeline);
    if (swap_is_quiet(reload->swap)) {
      inherit(reload);
    }
  } else if ((event == PIPELINE_GONE || event == PIPELINE_RESTAGED) && reload->step == RELOAD_REPLACING) {
    replace_if_gone(reload);
  }
}

bool reload_is_at_sockets(const struct reload *reload) { return reload->step == RELOAD_INHERITING; }

bool reload_is_exchanging(const struct reload *reload) { return reload->step == RELOAD_REPLACING; }

void reload_cancel(struct reload *reload) {
  reload->cancelled = true;
  if (reload->step == RELOAD_QUIESCING) {
    reload_take_back(reload);
  }
}

/* -- load ---------------------------------------------------------------------------------------------------------- */

static void reload_load(void *context) {
  struct reload *reload = context;
  reload->generation->config = footprint_load(reload->server->path, reload->errors);
  if (reload->generation->config) {
    models_settle(reload->generation->config);
  } else {
    device_judge_end();
  }
}

static void on_loaded(void *context) {
  struct reload *reload = context;
  const struct config *config = reload->generation->config;
  char keys[256];
  if (reload->cancelled) {
    refuse_failure(reload);
  } else if (!config) {
    reload_refuse(reload, 400, config_errors_text(reload->errors), "");
  } else if (config_diff_fixed_keys(reload->server->config, config, keys, sizeof keys)) {
    failure_set(&reload->failure, EXIT_STATUS_CONFIG,
                "restart the daemon, which closes its connections, or put them back as they were",
                "these keys cannot change while the daemon runs: %s", keys);
    refuse_failure(reload);
  } else {
    reload->swap = swap_new(reload->server, config, &reload->failure);
    if (reload->swap && swap_may_open(reload->swap, &reload->failure)) {
      prepare_if_may(reload);
    } else {
      refuse_failure(reload);
    }
  }
}

static struct reload *reload_make(struct server *server, server_answer *answer, void *context) {
  struct reload *reload = calloc(1, sizeof *reload);
  if (!reload) {
    return NULL;
  }
  *reload = (struct reload){.server = server, .answer = answer, .context = context};
  reload->generation = generation_new(NULL);
  reload->errors = config_errors_new();
  reload->limit = loop_timer_new(&server->loop, on_limit, reload);
  if (reload->generation && reload->errors && reload->limit) {
    return reload;
  }
  generation_free(reload->generation);
  config_errors_free(reload->errors);
  loop_timer_close(reload->limit);
  free(reload);
  return NULL;
}

void server_reload(struct server *server, server_answer *answer, void *context) {
  const char *obstacle = server->reload                                          ? "another reload is under way"
                         : server->stop_wanted || server->phase > SERVER_RUNNING ? "the daemon is stopping"
                         : server->phase == SERVER_STARTING                      ? "the daemon is still starting"
                                                                                 : NULL;
  if (obstacle) {
    log_event(LOG_RELOAD_REFUSED, NULL, "nothing was changed: %s", obstacle);
    answer_error(answer, context, 409, "try again later", "%s", obstacle);
    return;
  }
  server->reload = reload_make(server, answer, context);
  if (!server->reload) {
    answer_error(answer, context, 503, "try again later", "not enough memory to reload");
    return;
  }
  systemd_reloading();
  recoveries_hurry(server); /* the reload may mend what they wait for, and needs them */
  work_on(server->reload, reload_load, on_loaded);
}
