/*
 * What a server leaves to the next image of its process, and takes from the one before: its configuration as text, its
 * listeners, its books, and every pipeline with all that is connected to it.
 *
 * To hand over, all lanes stand still first: from then on nothing touches a descriptor, and what is put on the tape is exactly
 * where everything is.
 */
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/server/private.h"
#include "daemon/state/checkpoint.h"
#include "daemon/state/codec.h"
#include "daemon/state/exec.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/state.h"

#define PATIENCE  (100 * NS_PER_MS) /* with a lane that may be within a call to a device */
#define PARK_TIME (5 * NS_PER_S)    /* for a lane to finish a turn on a machine with too much to do */
#define FILE_TIME (80 * NS_PER_MS)  /* for a request to a file, while everybody stands still, */
#define LAST_TIME (500 * NS_PER_MS) /* and where that is the end anyway */

#define ENDED_WITHOUT_A_WORD "the process before ended without a word"

enum { ROUNDS = 64 };

void server_pass_config(char **text, struct tape *tape) { tape_pass_text(tape, text); }

/* Where lanes note how far they are. */
static void pass_chronicle(struct tape *tape) {
  int fd = tape->writing ? chronicle_fd() : -1;
  tape_pass_descriptor(tape, &fd);
  if (!tape->writing && (fd < 0 || !chronicle_look_into(fd))) {
    tape_break(tape);
  }
  if (!tape->writing && fd >= 0) {
    close(fd);
  }
}

static void pass_server(struct server *server, struct tape *tape) {
  /* A restart is the stop itself, and who is killed is not to stop again. */
  bool stops = server->stop_wanted && server->succession.cause != SUCCESSION_RESTART && !tape->live;
  bool upgrades = server->upgrade && server->succession.cause == SUCCESSION_FAULT;
  bool reloads = server->reload && (server->succession.cause != SUCCESSION_RESTART || tape->live);
  pid_t asked = upgrade_child(server);
  tape_pass_time(tape, &server->started);
  TAPE_PASS(tape, server->reloads);
  TAPE_PASS(tape, server->reload_failures);
  if (!tape->by_manager) { /* who is started anew looks at the file, and finds out by itself */
    TAPE_PASS(tape, server->reload_refusal);
    server->reload_refusal[sizeof server->reload_refusal - 1] = '\0';
  }
  TAPE_PASS(tape, stops);
  TAPE_PASS(tape, upgrades);
  TAPE_PASS(tape, reloads);
  TAPE_PASS(tape, asked);
  server->succession_at = tape->at;
  succession_pass(&server->succession, tape);
  server->status_listener = listener_pass(server->status_listener, tape);
  server->http_listener = listener_pass(server->http_listener, tape);
  if (!tape->writing) {
    server->stops_again = stops;
    server->upgrades_again = upgrades;
    server->reload_at_once |= reloads;
    server->asked = asked;
  }
  if (tape->live) {
    pass_chronicle(tape);
  } else if (!tape->by_manager) {
    keeper_pass(tape);
    listener_pass_unused(tape);
  }
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

/* Messages that are under way arrive, and those that they cause. */
static void settle(struct server *server) {
  bool any = true;
  for (int round = 0; any && round < ROUNDS; round++) {
    any = mailbox_run(&server->control);
    any = engine_run_messages(server->engine) || any;
  }
}

static bool is_on(const struct pipeline *pipeline, unsigned device) {
  return device == NO_DEVICE || pipeline_config(pipeline)->device == device;
}

/* Frames on the device that failed are suspected of it, and one that was alone there even more. */
static void suspect(struct server *server, bool fault, unsigned device) {
  unsigned running = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    running += is_on(server->pipelines[i], device) ? pipeline_running_frames(server->pipelines[i]) : 0;
  }
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_suspect(server->pipelines[i], fault && is_on(server->pipelines[i], device), running == 1);
  }
}

static void put(struct server *server, struct tape *tape) {
  char *text = server->config->text;
  server_pass_config(&text, tape);
  pass_server(server, tape);
  engine_put(server->engine, tape);
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_put(server->pipelines[i], tape);
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

static bool execute(struct server *server, const char *program, struct failure *failure) {
  struct tape tape;
  tape_begin(&tape);
  put(server, &tape);
  log_flush();
  listener_withhold_new(); /* of a reload, which the next image begins again, if it does not stop */
  bool executed = handover_execute(program, &tape, failure);
  listener_allow_new();
  tape_clear(&tape);
  return executed;
}

/* Everything stands still. */
static bool leave(struct server *server, struct failure *failure) {
  struct tape tape;
  tape_begin(&tape);
  tape.by_manager = true;
  put(server, &tape);
  bool left = keeper_keep(&tape, failure);
  for (unsigned i = 0; left && i < server->pipeline_count; i++) {
    const char *path = pipeline_awaited_file(server->pipelines[i], INT64_MAX);
    if (path) {
      log_event(LOG_HANGS, pipeline_config(server->pipelines[i])->name,
                "'%s' does not answer: it begins anew with the next process", path);
    }
    pipeline_log_account(server->pipelines[i]);
  }
  if (left) {
    log_event(LOG_LEFT, NULL, "%u descriptors are left to the next process", tape.descriptor_count);
    log_flush();
    server_close_sockets();
    _exit(EXIT_STATUS_OK);
  }
  tape_clear(&tape);
  return false;
}

/* What is done once everything stands still: with `program` it executes that, else (leaving) this process ends. */
struct exchange {
  enum succession_cause cause;
  const char *text;
  unsigned failed_device;
  const char *program;
};

/* After a fault nothing moves anyway, and nothing could go on without the file. */
static int64_t file_time(enum succession_cause cause) {
  return cause == SUCCESSION_FAULT ? PARK_TIME : cause == SUCCESSION_RESTART ? LAST_TIME : FILE_TIME;
}

static bool park(struct server *server, enum succession_cause cause, int64_t now, struct failure *failure) {
  const struct lane_patience patience = {.device = now + PATIENCE,
                                         .file = now + file_time(cause),
                                         .leaves_files = cause == SUCCESSION_RESTART,
                                         .limit = now + PARK_TIME};
  if (engine_park(server->engine, &patience)) {
    return true;
  }
  failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "a lane does not come to the end of its turn, or a file does not answer");
  failure->later = clock_now() < patience.limit;
  return false;
}

static bool exchange(struct server *server, const struct exchange *how, struct failure *failure) {
  if (!server_may_hand_over(server, failure)) {
    return false;
  }
  struct succession before = server->succession;
  int64_t now = clock_now();
  succession_end(&server->succession, how->cause, how->text, now);
  server->handing_over = true;
  if (park(server, how->cause, now, failure)) {
    settle(server);
    suspect(server, how->cause == SUCCESSION_FAULT, how->failed_device);
    if (how->cause == SUCCESSION_RESTART) {
      leave(server, failure);
    } else {
      execute(server, how->program, failure);
    }
  }
  engine_unpark(server->engine);
  server->handing_over = false;
  server->succession = before;
  server_hear(server);
  return false;
}

bool server_hand_over(struct server *server, enum succession_cause cause, const char *text, unsigned failed_device,
                      const char *program, struct failure *failure) {
  const struct exchange how = {.cause = cause, .text = text, .failed_device = failed_device, .program = program};
  return exchange(server, &how, failure);
}

bool server_leave(struct server *server, const char *text, struct failure *failure) {
  const struct exchange how = {.cause = SUCCESSION_RESTART, .text = text, .failed_device = NO_DEVICE};
  return exchange(server, &how, failure);
}

/* -- without a word ------------------------------------------------------------------------------------------------ */

static uint64_t count_clients(const struct server *server) {
  uint64_t clients = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    clients += pipeline_clients(server->pipelines[i]);
  }
  return clients;
}

void server_beat(const struct server *server) { keeper_beat(clock_now(), count_clients(server)); }

void server_note_journal(const struct server *server) {
  struct keeper_journal journal = {.succession = server->succession};
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    const struct config_sink *sink = &pipeline_config(server->pipelines[i])->sink;
    if (sink->endpoint == CONFIG_FILE && journal.file_count < KEEPER_MOST_FILES) {
      uint64_t result_bytes = pipeline_result_bytes_in_file(server->pipelines[i]);
      journal.files[journal.file_count++] = (struct keeper_file){.path = sink->path, .result_bytes = result_bytes};
    }
  }
  keeper_note(&journal);
}

void server_note(struct server *server) {
  if (keeper_is_there()) {
    server_note_journal(server);
    keeper_mark();
    server_note_roster(server);
  }
}

/* While pipelines are exchanged the last one stands: what it tells of is there until the next one. */
void server_note_roster(struct server *server) {
  struct failure later;
  if (!keeper_is_marked() || !keeper_is_there() || !server_may_hand_over(server, &later)) {
    return;
  }
  struct tape tape;
  tape_begin(&tape);
  tape.by_manager = true;
  tape.live = true;
  put(server, &tape);
  keeper_keep_roster(&tape, chronicle_fd() >= 0); /* without a chronicle it would be of no use */
  tape_clear(&tape);
  server_beat(server);
}

void server_recover(struct server *server) {
  struct keeper_journal journal = {0};
  struct keeper_pulse pulse;
  server->recovers = keeper_recover(&journal, &pulse);
  if (server->recovers) {
    server->succession = journal.succession;
    succession_end(&server->succession, SUCCESSION_CRASH, ENDED_WITHOUT_A_WORD, pulse.last);
    server->succession.closed += pulse.clients;
    server->lost_clients = pulse.clients;
  }
}

void server_recovered(struct server *server) {
  succession_begin(&server->succession, clock_now());
  log_event(LOG_RECOVERED, NULL, ENDED_WITHOUT_A_WORD " %.0f ms ago; its %llu connections were closed",
            (double)server->succession.gap / (double)NS_PER_MS, (unsigned long long)server->lost_clients);
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

void server_take(struct server *server) {
  pass_server(server, server->tape);
  if (server->tape->live) {
    struct keeper_pulse pulse = keeper_last_pulse();
    succession_end(&server->succession, SUCCESSION_CRASH, ENDED_WITHOUT_A_WORD, pulse.last);
    server->lost_clients = pulse.clients;
  }
}

static void forget_tape(struct server *server) {
  chronicle_look_away();
  tape_close_rest(server->tape);
  tape_clear(server->tape);
  server->tape = NULL;
}

/* Connections that were being made have gone, besides those that were cut off. */
static void revived(struct server *server) {
  uint64_t here = count_clients(server);
  uint64_t lost = server->lost_clients > here ? server->lost_clients - here : 0;
  server->succession.closed += lost;
  succession_begin(&server->succession, clock_now());
  log_event(LOG_RECOVERED, NULL, ENDED_WITHOUT_A_WORD " %.0f ms ago: %llu connections go on, %llu were closed",
            (double)server->succession.gap / (double)NS_PER_MS, (unsigned long long)here, (unsigned long long)lost);
}

void server_taken(struct server *server) {
  const struct succession *succession = &server->succession;
  bool was_killed = server->tape->live;
  forget_tape(server);
  if (was_killed) {
    revived(server);
    return;
  }
  succession_begin(&server->succession, clock_now());
  bool said = succession->cause == SUCCESSION_FAULT; /* in an entry of its own */
  log_event(LOG_HANDED_OVER, NULL, "everything goes on after %.0f ms, with all connections%s%s",
            (double)succession->gap / (double)NS_PER_MS, said ? "" : ": ", said ? "" : succession->text);
}

/* The next image would not know that files may be torn. */
static bool hides_torn_files(const struct tape *tape) {
  return tape->live && !keeper_expect_torn(); /* there may have been no memory for it */
}

void server_start_over(const struct tape *tape, const char *why) {
  struct failure failure;
  bool ends = systemd_has_passed() || hides_torn_files(tape);
  log_event(LOG_NOT_HANDED_OVER, NULL, "%s: %s", ends ? HANDOVER_ENDS : HANDOVER_BEGINS_ANEW, why);
  log_flush();
  keeper_withdraw();
  if (!ends) {
    handover_start_over(&failure);
    log_event(LOG_FAILED, NULL, "%s", failure.text);
    log_flush();
  }
  keeper_recall_again();
  _exit(EXIT_STATUS_INTERNAL);
}
