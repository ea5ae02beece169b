/*
 * What a server leaves to the next image of its process, and takes from the one before: its configuration as text, its
 * listeners, its books, and every pipeline with all that is connected to it.
 *
 * To hand over, all lanes stand still first: from then on nothing touches a descriptor, and what is written says exactly where
 * everything is. Where a service manager keeps the state, the same is written to the image while lanes run, for the process
 * that follows should this one be killed.
 */
#include <stdlib.h>
#include <unistd.h>

#include "config/stream.h"
#include "daemon/base/log.h"
#include "daemon/base/models.h"
#include "daemon/base/systemd.h"
#include "daemon/server/private.h"
#include "daemon/state/codec.h"
#include "daemon/state/exec.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"
#include "gpu/kept.h"

#define PATIENCE  (100 * NS_PER_MS) /* with a lane that may be within a call to a device */
#define PARK_TIME (5 * NS_PER_S)    /* for a lane to finish a turn on a machine with too much to do */
#define FILE_TIME (80 * NS_PER_MS)  /* for a request to a file, while all lanes stand still, */
#define LAST_TIME (500 * NS_PER_MS) /* and where the process ends anyway */

#define ENDED_WITHOUT_A_WORD "the process before ended without a word"

enum { ROUNDS = 64, MOST_FILES = 1024 /* of models and stages */ };

void server_pass_config(char **text, struct codec *codec) { codec_pass_text(codec, text); }

/* Files of models and stages as they were opened: what stands in their place by now may be of no use, and is for a reload to
 * take, as is what one has opened that is under way. A process that the manager starts opens what is there. */
static void put_files(const struct server *server, struct codec *codec) {
  struct kept_file files[MOST_FILES];
  bool opens = codec->live || codec->by_manager;
  unsigned count = opens ? 0 : models_files(server->config, files, 0, MOST_FILES);
  for (unsigned i = 0; i < server->pipeline_count && !opens; i++) {
    count = pipeline_files(server->pipelines[i], files, count, MOST_FILES);
  }
  CODEC_PASS(codec, count);
  for (unsigned i = 0; i < count; i++) {
    codec_pass_text(codec, &files[i].path);
    codec_pass_descriptor(codec, &files[i].descriptor); /* stays open */
  }
}

void server_take_files(struct codec *codec) {
  unsigned count = 0;
  codec_pass_below(codec, &count, MOST_FILES + 1);
  for (unsigned i = 0; i < count && !codec->broken; i++) {
    struct kept_file file = {.descriptor = -1};
    codec_pass_text(codec, &file.path);
    codec_pass_descriptor(codec, &file.descriptor);
    if (file.path && file.descriptor >= 0) {
      kept_remember(file.path, file.descriptor);
    }
    free(file.path);
  }
}

static void pass_server(struct server *server, struct codec *codec) {
  /* At a restart the stop is done by leaving, and a stop that was killed is not to go on. */
  bool stops = server->stop_wanted && server->history.cause != HISTORY_RESTART && !codec->live;
  bool upgrades = server->upgrade && (server->history.cause == HISTORY_FAULT || server->history.cause == HISTORY_DEVICE);
  bool reloads = server->reload && !server->reload_given_up && (server->history.cause != HISTORY_RESTART || codec->live);
  pid_t asked = server->asking;
  codec_pass_time(codec, &server->started);
  CODEC_PASS(codec, server->reloads);
  CODEC_PASS(codec, server->reload_failures);
  if (!codec->by_manager) { /* a process that the manager starts looks at the file, and finds out by itself */
    CODEC_PASS(codec, server->reload_refusal);
    server->reload_refusal[sizeof server->reload_refusal - 1] = '\0';
  }
  CODEC_PASS(codec, stops);
  CODEC_PASS(codec, upgrades);
  CODEC_PASS(codec, reloads);
  CODEC_PASS(codec, asked);
  server->history_at = codec->at;
  history_pass(&server->history, codec);
  server->status_listener = listener_pass(server->status_listener, codec);
  server->http_listener = listener_pass(server->http_listener, codec);
  if (!codec->writing) {
    server->stops_again = stops;
    server->upgrades_again = upgrades;
    server->reload_at_once |= reloads;
    server->reload_repeats = reloads && server->history.cause == HISTORY_FAULT && !codec->live;
    server->asked = asked;
  }
  if (!codec->by_manager) {
    fd_table_pass(codec);
    listener_pass_unused(codec);
  }
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

/* Messages that are under way arrive, and those that their arrival causes. */
static void handover_settle(struct server *server) {
  bool any = true;
  for (int round = 0; any && round < ROUNDS; round++) {
    any = mailbox_run(&server->control);
    any = engine_run_messages(server->engine) || any;
  }
}

/* Frames on the device that failed are suspected of the fault, and a frame that was alone there even more. */
static void suspect(struct server *server, bool fault, unsigned device) {
  unsigned running = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    running += pipeline_running_frames(server->pipelines[i], device);
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_suspect(server->pipelines[i], fault, device, running == 1);
  }
}

static void handover_put(struct server *server, struct codec *codec) {
  char *text = server->config->text;
  server_pass_config(&text, codec);
  put_files(server, codec);
  pass_server(server, codec);
  engine_put(server->engine, codec);
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_put(server->pipelines[i], codec);
  }
}

bool server_may_hand_over(const struct server *server, struct failure *failure) {
  bool may = server->phase == SERVER_RUNNING || server->phase == SERVER_STOPPING;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    may = may && pipeline_may_be_put(server->pipelines[i], server->stop_wanted);
  }
  return may ||
         failure_set(failure, EXIT_STATUS_INTERNAL, "try again later", "the daemon starts, stops or exchanges pipelines");
}

static bool handover_execute(struct server *server, const char *program, struct failure *failure) {
  struct codec codec;
  codec_begin(&codec);
  handover_put(server, &codec);
  log_flush();
  listener_withhold_new(); /* new sockets are a reload's, which the next image begins again if it does not stop */
  bool executed = exec_execute(program, &codec, failure);
  listener_allow_new();
  codec_clear(&codec);
  return executed;
}

/* Lanes stand still. Returns false if the service manager does not take everything. */
static bool handover_leave(struct server *server, struct failure *failure) {
  struct codec codec;
  fd_table_begin(&codec);
  handover_put(server, &codec);
  bool left = fd_store_keep(&codec, failure);
  for (unsigned i = 0; left && i < server->pipeline_count; i++) {
    const char *path = pipeline_awaited_file(server->pipelines[i], INT64_MAX);
    if (path) {
      log_event(LOG_HANGS, pipeline_config(server->pipelines[i])->name,
                "'%s' does not answer: it begins anew with the next process", path);
    }
    pipeline_log_account(server->pipelines[i]);
  }
  if (left) {
    log_event(LOG_LEFT, NULL, "%u descriptors are left to the next process", codec.descriptor_count);
    log_flush();
    server_close_sockets();
    _exit(EXIT_STATUS_OK);
  }
  codec_clear(&codec);
  return false;
}

/* What is done once lanes stand still: at HISTORY_RESTART this process ends, else `program` is executed (NULL: this one). */
struct exchange {
  enum history_cause cause;
  const char *text;
  unsigned failed_device;
  const char *program;
};

static bool handover_park(struct server *server, enum history_cause cause, int64_t now, struct failure *failure) {
  /* after a fault frames do not move anyway, and no pipeline could go on without its file */
  int64_t file_time = cause == HISTORY_FAULT ? PARK_TIME : cause == HISTORY_RESTART ? LAST_TIME : FILE_TIME;
  const struct lane_patience patience = {
      .device = now + PATIENCE, .file = now + file_time, .leaves_files = cause == HISTORY_RESTART, .limit = now + PARK_TIME};
  if (engine_park(server->engine, &patience)) {
    return true;
  }
  failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "a lane does not come to the end of its turn, or a file does not answer");
  failure->later = clock_now() < patience.limit;
  return false;
}

/* Where another image takes over, it finds out by itself what pipelines tell meanwhile. */
void server_hear_later(struct server *server, struct pipeline *pipeline, enum pipeline_event event, const struct fault *fault) {
  struct unheard **end = &server->unheard;
  while (*end) {
    end = &(*end)->next;
  }
  *end = calloc(1, sizeof **end);
  if (*end) {
    **end = (struct unheard){.pipeline = pipeline, .event = event, .fault = fault};
  }
}

/* There is no other image: this one takes up what pipelines told. */
static void handover_hear(struct server *server) {
  while (server->unheard) {
    struct unheard *first = server->unheard;
    server->unheard = first->next;
    server->on_pipeline(server, first->pipeline, first->event, first->fault);
    free(first);
  }
}

static void recall_recordings(struct server *server) {
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_recall_recording(server->pipelines[i]);
  }
}

static bool exchange(struct server *server, const struct exchange *how, struct failure *failure) {
  if (!server_may_hand_over(server, failure)) {
    return false;
  }
  if (!image_may_follow()) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the system has no memory that outlives a process, or not enough");
  }
  struct history before = server->history;
  int64_t now = clock_now();
  history_end(&server->history, how->cause, how->text, now);
  server->handing_over = true;
  if (handover_park(server, how->cause, now, failure)) {
    handover_settle(server);
    recall_recordings(server);
    handover_settle(server);
    suspect(server, how->cause == HISTORY_FAULT, how->failed_device);
    if (how->cause == HISTORY_RESTART) {
      handover_leave(server, failure);
    } else {
      handover_execute(server, how->program, failure);
    }
  }
  engine_unpark(server->engine);
  server->handing_over = false;
  server->history = before;
  handover_hear(server);
  return false;
}

bool server_hand_over(struct server *server, enum history_cause cause, const char *text, unsigned failed_device,
                      const char *program, struct failure *failure) {
  const struct exchange how = {.cause = cause, .text = text, .failed_device = failed_device, .program = program};
  return exchange(server, &how, failure);
}

bool server_leave(struct server *server, const char *text, struct failure *failure) {
  const struct exchange how = {.cause = HISTORY_RESTART, .text = text, .failed_device = NO_DEVICE};
  return exchange(server, &how, failure);
}

/* -- should this process be killed
 * ------------------------------------------------------------------------------------------------ */

static uint64_t count_clients(const struct server *server) {
  uint64_t clients = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    clients += pipeline_clients(server->pipelines[i]);
  }
  return clients;
}

void server_beat(const struct server *server) { fd_store_beat(clock_now(), count_clients(server)); }

void server_note_journal(struct server *server) {
  struct stream files;
  if (!fd_store_is_there()) {
    return;
  }
  bool is_open = stream_open(&files);
  for (unsigned i = 0; is_open && i < server->pipeline_count; i++) {
    const struct config_sink *sink = &pipeline_config(server->pipelines[i])->sink;
    if (sink->endpoint == CONFIG_FILE) {
      fd_store_list(files.out, sink->path, pipeline_result_bytes_in_file(server->pipelines[i]));
    }
  }
  char *text = is_open ? stream_close(&files) : NULL;
  fd_store_note(&server->history, text);
  free(text);
}

void server_note(struct server *server) {
  if (fd_store_is_there()) {
    server_note_journal(server);
    fd_store_mark();
    server_note_state(server);
  }
}

/* While pipelines are exchanged the last state stands: what it names is there until the next one is written. */
void server_note_state(struct server *server) {
  struct failure later;
  if (!fd_store_is_marked() || !fd_store_is_there() || !server_may_hand_over(server, &later)) {
    return;
  }
  struct codec codec;
  fd_table_begin(&codec);
  codec.live = true;
  handover_put(server, &codec);
  fd_store_keep_state(&codec, image_outlives());
  codec_clear(&codec);
  server_beat(server);
}

void server_recover(struct server *server) {
  struct history history;
  struct fd_store_heartbeat heartbeat;
  server->recovers = fd_store_recover(&history, &heartbeat);
  if (server->recovers) {
    server->history = history;
    history_end(&server->history, HISTORY_CRASH, ENDED_WITHOUT_A_WORD, heartbeat.last);
    server->history.closed += heartbeat.clients;
    server->lost_clients = heartbeat.clients;
  }
}

void server_recovered(struct server *server) {
  history_begin(&server->history, clock_now());
  log_event(LOG_RECOVERED, NULL, ENDED_WITHOUT_A_WORD " %.0f ms ago; its %llu connections were closed",
            (double)server->history.gap / (double)NS_PER_MS, (unsigned long long)server->lost_clients);
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

void server_take(struct server *server) {
  pass_server(server, server->codec);
  if (server->codec->live) {
    struct fd_store_heartbeat heartbeat = fd_store_last_heartbeat();
    history_end(&server->history, HISTORY_CRASH, ENDED_WITHOUT_A_WORD, heartbeat.last);
    server->lost_clients = heartbeat.clients;
  }
}

/* A process before this one was killed. Besides connections that were cut off, those that were being made have gone. */
static void revived(struct server *server) {
  uint64_t here = count_clients(server);
  uint64_t lost = server->lost_clients > here ? server->lost_clients - here : 0;
  server->history.closed += lost;
  history_begin(&server->history, clock_now());
  log_event(LOG_RECOVERED, NULL, ENDED_WITHOUT_A_WORD " %.0f ms ago: %llu connections go on, %llu were closed",
            (double)server->history.gap / (double)NS_PER_MS, (unsigned long long)here, (unsigned long long)lost);
}

void server_taken(struct server *server) {
  const struct history *history = &server->history;
  bool was_killed = server->codec->live;
  image_look_away();
  kept_forget();
  codec_close_rest(server->codec);
  codec_clear(server->codec);
  server->codec = NULL;
  if (was_killed) {
    revived(server);
    return;
  }
  history_begin(&server->history, clock_now());
  bool said = history->cause == HISTORY_FAULT; /* a fault has a log entry of its own */
  log_event(LOG_HANDED_OVER, NULL, "everything goes on after %.0f ms, with all connections%s%s",
            (double)history->gap / (double)NS_PER_MS, said ? "" : ": ", said ? "" : history->text);
}

void server_start_over(const struct codec *codec, const char *why) {
  struct failure failure;
  bool ends = systemd_has_passed();
  log_event(LOG_NOT_HANDED_OVER, NULL, "%s: %s", ends ? EXEC_ENDS : EXEC_BEGINS_ANEW, why);
  log_flush();
  fd_store_withdraw();
  if (!ends) {
    exec_start_over(codec->live, &failure);
    log_event(LOG_FAILED, NULL, "%s", failure.text);
    log_flush();
  }
  fd_store_recall_again();
  _exit(EXIT_STATUS_INTERNAL);
}
