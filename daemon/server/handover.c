/*
 * What a server leaves to the next image of its process, and takes from the one before: itself, its configuration as text, and
 * every pipeline with all that is connected to it, where they lie in the image of the state.
 *
 * To hand over, all lanes stand still first: from then on nothing touches a descriptor, and everything is exactly where it is.
 * Where a service manager keeps the state, the same is told to it while lanes run, for the process that follows should this one
 * be killed.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/device/models.h"
#include "daemon/server/private.h"
#include "daemon/state/exec.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"
#include "gpu/kept.h"

#define PARK_TIME (5 * NS_PER_S)    /* for a lane to finish a turn on a machine with too much to do */
#define FILE_TIME (80 * NS_PER_MS)  /* for a request to a file, while all lanes stand still, */
#define LAST_TIME (500 * NS_PER_MS) /* and where the process ends anyway */

enum { ROUNDS = 64, MOST_FILES = 1024 /* of models and stages */ };

const char *server_take_config(const struct left *left) {
  if (!left->live && !left->by_manager) {
    engine_adopt_workers(left->state->engine);
  }
  const char *at = left->text;
  for (unsigned i = 0; at && i < left->state->files; i++) {
    char *path;
    int fd = fd_table_take((int)strtol(at, &path, 10));
    if (fd >= 0 && *path == ' ') {
      kept_remember(path + 1, fd);
    }
    at = path + strlen(path) + 1;
    at = at < left->end ? at : NULL;
  }
  return at;
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

/* Files of models and stages as they were opened: what stands in their place by now may be of no use, and is for a reload to
 * take, as is what one has opened that is under way. */
static unsigned list_files(const struct server *server, struct kept_file files[MOST_FILES]) {
  unsigned count = models_files(server->config, files, 0, MOST_FILES);
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    count = pipeline_files(server->pipelines[i], files, count, MOST_FILES);
  }
  return count;
}

/* The state, a record: everything else lies where it is worked on. `program`: that is executed, while a process that the
 * manager starts opens the files that are there. NULL: there is no memory. */
static struct state *make_state(const struct server *server, bool program) {
  static struct kept_file files[MOST_FILES];
  const unsigned count = server->pipeline_count, file_count = program ? list_files(server, files) : 0;
  size_t room = strlen(server->config->text) + 1;
  for (unsigned i = 0; i < file_count; i++) {
    room += sizeof "2147483647 " + strlen(files[i].path);
  }
  struct state *state = image_new(IMAGE_STATE, sizeof *state + count * sizeof *state->pipeline + room);
  if (!state) {
    return NULL;
  }
  *state = (struct state){.server = server, .engine = server->engine, .pipelines = count, .files = file_count};
  for (unsigned i = 0; i < count; i++) {
    const struct config_sink *sink = &pipeline_config(server->pipelines[i])->sink;
    state->pipeline[i].address = server->pipelines[i];
    if (sink->endpoint == CONFIG_FILE) {
      state->pipeline[i].path = state_checksum(sink->path, strlen(sink->path));
      state->pipeline[i].result_bytes = pipeline_result_bytes_in_file(server->pipelines[i]);
    }
  }
  char *at = (char *)(state->pipeline + count), *end = at + room;
  for (unsigned i = 0; i < file_count; i++) {
    at += snprintf(at, (size_t)(end - at), "%d %s", files[i].descriptor, files[i].path) + 1;
    fd_table_want(files[i].descriptor); /* stays open */
  }
  memcpy(at, server->config->text, strlen(server->config->text) + 1);
  return state;
}

static struct state *handover_put(struct server *server, bool program, bool live) {
  fd_table_begin();
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_keep(server->pipelines[i], program, live);
  }
  if (!live) {
    engine_keep(server->engine, program);
  }
  return make_state(server, program);
}

/* Messages that are under way arrive, and those that their arrival causes. */
static void handover_settle(struct server *server) {
  bool any = true;
  for (int round = 0; any && round < ROUNDS; round++) {
    any = mailbox_run(&server->control);
    any = engine_run_messages(server->engine) || any;
  }
}

unsigned server_suspect(struct server *server, unsigned device, bool failed, bool alone) {
  unsigned running = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    running += pipeline_suspect(server->pipelines[i], device, failed, alone);
  }
  return running;
}

bool server_may_hand_over(const struct server *server, struct failure *failure) {
  bool may = server->phase == SERVER_RUNNING || server->phase == SERVER_STOPPING;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    may = may && pipeline_may_be_handed_over(server->pipelines[i], server->stop_wanted);
  }
  return may ||
         failure_set(failure, EXIT_STATUS_INTERNAL, "try again later", "the daemon starts, stops or exchanges pipelines");
}

static void handover_execute(const char *program, struct state *state, struct failure *failure) {
  log_flush();
  listener_block_new(); /* new sockets are a reload's, which the next image begins again if it does not stop */
  exec_execute(program, state, failure);
  listener_allow_new();
}

/* Returns if the service manager does not take everything. */
static void handover_leave(struct server *server, struct state *state, struct failure *failure) {
  if (!fd_store_keep(state, failure)) {
    return;
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    const char *path = pipeline_awaited_file(server->pipelines[i], INT64_MAX);
    if (path) {
      log_event(LOG_HANGS, pipeline_config(server->pipelines[i])->name,
                "'%s' does not answer: it begins anew with the next process", path);
    }
    pipeline_log_account(server->pipelines[i]);
  }
  log_event(LOG_LEFT, NULL, "%u descriptors are left to the next process", fd_table_needed());
  log_flush();
  server_close_sockets();
  _exit(EXIT_STATUS_OK);
}

static bool handover_park(struct server *server, enum history_cause cause, int64_t now, struct failure *failure) {
  const bool ends = cause == HISTORY_RESTART;
  const struct lane_patience patience = {
      .file = now + (ends ? LAST_TIME : FILE_TIME), .leaves_files = ends, .limit = now + PARK_TIME};
  if (engine_park(server->engine, &patience)) {
    return true;
  }
  failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "a lane does not come to the end of its turn, or a file does not answer");
  failure->later = clock_now() < patience.limit;
  return false;
}

/* Where another image takes over, it finds out by itself what pipelines tell meanwhile. */
void server_hear_later(struct server *server, struct pipeline *pipeline, enum pipeline_event event) {
  struct unheard **end = &server->unheard;
  while (*end) {
    end = &(*end)->next;
  }
  *end = calloc(1, sizeof **end);
  if (*end) {
    **end = (struct unheard){.pipeline = pipeline, .event = event};
  }
}

/* No other image comes: this one takes up what pipelines told. */
static void handover_hear(struct server *server) {
  while (server->unheard) {
    struct unheard *first = server->unheard;
    server->unheard = first->next;
    server->on_pipeline(server, first->pipeline, first->event);
    free(first);
  }
  server->report(server, SERVER_FAULT, NULL); /* of workers that were lost meanwhile */
}

/* Lanes stand still. */
static void put_and_go(struct server *server, enum history_cause cause, const char *program, struct failure *failure) {
  handover_settle(server);
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_recall_recording(server->pipelines[i]);
  }
  handover_settle(server);
  server_suspect(server, NO_DEVICE, false, false); /* frames on devices run again */
  struct state *state = handover_put(server, cause != HISTORY_RESTART, false);
  if (!state) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the state cannot be kept: not enough memory");
  } else if (cause == HISTORY_RESTART) {
    handover_leave(server, state, failure);
  } else {
    handover_execute(program, state, failure);
  }
}

void server_hand_over(struct server *server, enum history_cause cause, const char *text, const char *program,
                      struct failure *failure) {
  if (!server_may_hand_over(server, failure)) {
    return;
  }
  if (!image_may_be_taken_over()) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the system has no memory that outlives a process, or not enough");
    return;
  }
  struct history before = server->history;
  int64_t now = clock_now();
  history_end(&server->history, cause, text, now);
  server->handing_over = true;
  server->cause = cause;
  if (handover_park(server, cause, now, failure)) {
    put_and_go(server, cause, program, failure);
  }
  device_stay(); /* the next image has not followed */
  engine_unpark(server->engine);
  server->handing_over = false;
  server->history = before;
  handover_hear(server);
}

/* -- should this process be killed ---------------------------------------------------------------------------------- */

static struct server *left_server(void) {
  const struct state *state = state_left()->state;
  return state ? image_left_at(state->server, IMAGE_SERVER, sizeof(struct server)) : NULL;
}

static uint64_t count_clients(const struct server *server) {
  uint64_t clients = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    clients += pipeline_clients(server->pipelines[i]);
  }
  return clients;
}

void server_beat(const struct server *server) { fd_store_beat(clock_now(), count_clients(server)); }

void server_note_files(struct server *server) {
  fd_store_note(make_state(server, false), IMAGE_IS_REPORT);
  server_beat(server);
  fd_store_try_again();
}

void server_note(struct server *server) {
  fd_table_mark();
  server_note_state(server);
}

/* While pipelines are exchanged the last state stands: what it names is there until the next one is written. */
void server_note_state(struct server *server) {
  struct failure later;
  if (!fd_table_is_marked() || systemd_keeps() == 0 || !server_may_hand_over(server, &later)) {
    return;
  }
  fd_store_keep_state(handover_put(server, false, true));
  server_beat(server);
}

/* The process before was killed, as far as anybody knows at its last beat. */
static void note_crash(struct server *server) {
  struct image_heartbeat heartbeat = fd_store_last_heartbeat();
  history_end(&server->history, HISTORY_CRASH, "the process before ended without a word", heartbeat.last);
  server->lost_clients = heartbeat.clients;
}

void server_recover(struct server *server) {
  const struct server *left = fd_store_was_killed() ? left_server() : NULL;
  server->recovers = left && history_adopt(&server->history, &left->history);
  if (server->recovers) {
    note_crash(server);
  }
}

/* Besides connections that were cut off, those that were being made have gone. */
void server_recovered(struct server *server) {
  uint64_t here = server->left ? count_clients(server) : 0;
  uint64_t lost = server->lost_clients > here ? server->lost_clients - here : 0;
  server->history.closed += lost;
  history_begin(&server->history, clock_now());
  log_event(LOG_RECOVERED, NULL,
            "the process before ended without a word %.0f ms ago: %llu connections go on, %llu were closed",
            (double)server->history.gap / (double)NS_PER_MS, (unsigned long long)here, (unsigned long long)lost);
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

bool server_tell_next(const struct server *server) {
  struct server *left = left_server();
  if (left) {
    left->history = server->history;
    left->next_stops |= server->stop_wanted;
    left->next_reloads |= server->reload_at_once;
  }
  return left;
}

/* What it was at. At a restart the stop is done by leaving, and a stop that was killed is not to go on. */
static void take_tasks(struct server *server, const struct server *left, bool live) {
  enum history_cause cause = left->cause; /* that of its history may be a fault since, at which this was taken up before */
  bool reloads = left->reload && (cause != HISTORY_RESTART || live);
  server->stops_again = left->next_stops || (left->stop_wanted && cause != HISTORY_RESTART && !live);
  server->upgrades_again = left->upgrade && cause == HISTORY_DEVICE && !live;
  server->reload_at_once |= reloads || left->next_reloads;
  server->asked = left->asking;
}

static bool take_workers(struct server *server, const struct server *left) {
  bool sound = true;
  for (unsigned i = 0; i < ENGINE_MOST_DEVICES && sound; i++) {
    sound = workers_adopt(&server->workers[i], &left->workers[i]);
  }
  return sound;
}

bool server_take(struct server *server) {
  const struct server *left = left_server();
  bool sound = left && server->left->state->pipelines == server->config->pipeline_count && image_is_time(left->started) &&
               IMAGE_IS_FLAG(left->stop_wanted) && IMAGE_IS_FLAG(left->next_stops) && IMAGE_IS_FLAG(left->next_reloads) &&
               history_adopt(&server->history, &left->history) && take_workers(server, left);
  if (!sound) {
    return false;
  }
  server->started = left->started;
  server->reloads = left->reloads;
  server->reload_failures = left->reload_failures;
  if (!server->left->by_manager) { /* else it looks at the file, and finds out by itself */
    memcpy(server->reload_refusal, left->reload_refusal, sizeof server->reload_refusal - 1);
  }
  take_tasks(server, left, server->left->live);
  if (server->left->live) {
    note_crash(server);
  }
  return true;
}

void server_taken(struct server *server) {
  const struct history *history = &server->history;
  bool said = history->cause == HISTORY_FAULT; /* a fault has a log entry of its own */
  kept_forget();
  if (server->left->live) {
    server_recovered(server);
  } else {
    history_begin(&server->history, clock_now());
    log_event(LOG_HANDED_OVER, NULL, "everything goes on after %.0f ms, with all connections%s%s",
              (double)history->gap / (double)NS_PER_MS, said ? "" : ": ", said ? "" : history->text);
  }
  server->left = NULL;
}

void server_start_over(const char *why) {
  struct failure failure;
  bool ends = systemd_has_passed();
  log_event(LOG_NOT_HANDED_OVER, NULL, "%s: %s", ends ? EXEC_ENDS : EXEC_BEGINS_ANEW, why);
  log_flush();
  fd_store_withdraw();
  if (!ends) {
    exec_start_over(&failure);
    log_event(LOG_FAILED, NULL, "%s", failure.text);
    log_flush();
  }
  _exit(EXIT_STATUS_INTERNAL);
}
