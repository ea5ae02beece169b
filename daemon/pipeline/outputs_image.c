/*
 * An outlet over a tape: its listener or file, its readers, each at the byte where it is, and the sink's results. It is put
 * after the sessions whose results these are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/pipeline/outputs_private.h"
#include "daemon/sink/results.h"
#include "daemon/state/fd_store.h"

static void pass_outlet(struct outlet *outlet, struct tape *tape) {
  unsigned kind = outlet->endpoint.kind;
  TAPE_PASS(tape, outlet->refusals.count);
  TAPE_PASS(tape, outlet->missed);
  TAPE_PASS(tape, outlet->ended);
  TAPE_PASS(tape, outlet->awaits_end);
  TAPE_PASS(tape, outlet->welcome.session);
  struct listener *listener = listener_pass(outlet->listener, tape);
  tape_pass_below(tape, &kind, ENDPOINT_FIFO + 1);
  tape_pass_descriptor(tape, &outlet->endpoint.fd);
  if (!tape->writing) { /* else a worker thread that prepares a reload may be looking */
    outlet->listener = listener;
    outlet->endpoint.kind = (enum endpoint_kind)kind;
  }
}

/* Readers and results are in the chronicle; which of them are there is the control loop's to say. */
static void put_live(struct outlet *outlet, struct tape *tape) {
  uint64_t page = page_name(outlet->sink->page);
  TAPE_PASS(tape, page);
  TAPE_PASS(tape, outlet->count);
  for (const struct place *place = outlet->places; place; place = place->next) {
    pid_t pid = place->pid;
    uid_t uid = place->uid;
    TAPE_PASS(tape, pid);
    TAPE_PASS(tape, uid);
    reader_put_live(place->reader, tape);
  }
}

void outlet_put(struct outlet *outlet, struct tape *tape) {
  unsigned count = 0;
  pass_outlet(outlet, tape);
  if (tape->live) {
    put_live(outlet, tape);
    return;
  }
  sink_pass(outlet->sink, tape, NULL, NULL);
  for (const struct place *place = outlet->places; place; place = place->next) {
    count += !reader_has_gone(place->reader, outlet->sink);
  }
  TAPE_PASS(tape, count);
  for (struct place *place = outlet->places; place; place = place->next) {
    if (!reader_has_gone(place->reader, outlet->sink)) {
      TAPE_PASS(tape, place->pid);
      TAPE_PASS(tape, place->uid);
      bool shares = place->control.fd >= 0;
      TAPE_PASS(tape, shares);
      reader_pass(place->reader, outlet->sink, tape, NULL, NULL);
      if (shares) {
        tape_pass_descriptor(tape, &place->control.fd);
        reader_pass_loans(place->reader, tape);
      }
    }
  }
  greeter_pass(outlet->greeter, tape);
}

/* The control memory of a reader that has results in shared memory. */
static bool take_control(const struct outlet *outlet, struct place *place, struct tape *tape) {
  struct failure failure;
  char name[96];
  int fd = -1;
  snprintf(name, sizeof name, "framed:%s.reader:control", outlet->config->name);
  tape_pass_descriptor(tape, &fd);
  if (tape->broken || !arena_adopt(&place->control, name, NATIVE_CONTROL, fd, NULL, &failure) ||
      !reader_share(place->reader, (struct native_control *)place->control.base, 0)) {
    return false;
  }
  reader_pass_loans(place->reader, tape);
  return !tape->broken;
}

static void take_place(struct outlet *outlet, struct tape *tape, sink_road *road, void *context) {
  struct place *place = calloc(1, sizeof *place);
  bool cut = false;
  bool shares = false;
  if (!place) {
    tape_break(tape);
    return;
  }
  place->control = ARENA_NONE;
  TAPE_PASS(tape, place->pid);
  TAPE_PASS(tape, place->uid);
  if (!tape->live) {
    TAPE_PASS(tape, shares);
  }
  place->reader = tape->live ? reader_take_live(outlet->sink, tape, &cut, &outlet->cut)
                             : reader_pass(NULL, outlet->sink, tape, road, context);
  outlet->cut_off += cut;
  if (place->reader && shares && !take_control(outlet, place, tape)) {
    tape_break(tape);
    arena_drop(&place->control);
    place->reader = reader_free(place->reader);
  }
  if (!place->reader) {
    free(place);
    return;
  }
  outlet_add(outlet, place);
  place->reader->next = outlet->sink->continuing;
  outlet->sink->continuing = place->reader;
}

static void take_results(struct outlet *outlet, struct tape *tape, sink_road *road, void *context) {
  struct sink_noted noted;
  uint64_t page = 0;
  TAPE_PASS(tape, page);
  if (!sink_read_note(page, &noted) || !sink_take_noted(outlet->sink, &noted, road, context)) {
    tape_break(tape);
  }
}

/* What is open stays what it was. Of standard output and its like, whose kind says too little, nobody changes what they are. */
static void keep_kind(const struct outlet *outlet) {
  enum endpoint_kind kind = outlet->endpoint.kind;
  bool is_standard = strcmp(outlet->config->sink.path, "-") == 0;
  if (!outlet->listener && !(kind == ENDPOINT_ONCE && is_standard)) {
    sink_be_file(outlet->sink, kind != ENDPOINT_FIFO);
  }
}

/* Those that are in the middle of a result have theirs by now. */
static void take_rooms(struct outlet *outlet, struct tape *tape) {
  struct failure failure;
  for (struct place *place = outlet->places; place; place = place->next) {
    if (!reader_bring_room(place->reader, &failure)) {
      tape_break(tape);
    }
  }
}

bool outlet_take(struct outlet *outlet, struct tape *tape, sink_road *road, void *context, struct failure *failure) {
  unsigned count = 0;
  outlet->continues = true;
  pass_outlet(outlet, tape);
  keep_kind(outlet);
  if (tape->live) {
    take_results(outlet, tape, road, context);
  } else {
    sink_pass(outlet->sink, tape, road, context);
  }
  TAPE_PASS(tape, count);
  for (unsigned i = 0; i < count && !tape->broken; i++) {
    take_place(outlet, tape, road, context);
  }
  take_rooms(outlet, tape);
  outlet->visits = tape->live ? NULL : greeter_pass(NULL, tape);
  outlet->awaits_end |= tape->live && outlet->endpoint.kind == ENDPOINT_FIFO && outlet->count == 0;
  outlet->ended |= tape->live && outlet->endpoint.kind != ENDPOINT_FIFO && !outlet->listener && outlet->count == 0;
  return !tape->broken || failure_set(failure, EXIT_STATUS_INTERNAL, NULL,
                                      "what was handed over of the readers of '%s' makes no sense", outlet->config->name);
}

void outlet_log_cuts(const struct outlet *outlet) {
  const char *name = outlet->config->name;
  const char *doubt = outlet->cut_unsure ? " (if results had the size that they have now, which is not known)" : "";
  if (outlet->cut > 0) {
    log_event(LOG_CUT, name, "the last %" PRIu64 " bytes of '%s' were a torn result%s, and are cut off", outlet->cut,
              outlet->config->sink.path, doubt);
  }
  if (outlet->cut_off > 0) {
    log_event(LOG_CUT_OFF, name, "%u reader%s cut off: the process before was killed while it wrote to %s", outlet->cut_off,
              outlet->cut_off == 1 ? " is" : "s are", outlet->cut_off == 1 ? "it" : "them");
  }
}

/* -- a file and its name ------------------------------------------------------------------------------------------------ */

static bool open_anew(const struct outlet *outlet, struct endpoint *endpoint, struct failure *failure) {
  if (!endpoint_open_sink(&outlet->config->sink, endpoint, failure)) {
    return false;
  }
  bool is_fit = sink_prepare_file(outlet->config, &outlet->format, endpoint->fd, failure);
  if (!is_fit) {
    endpoint_close(endpoint);
  }
  return is_fit;
}

/* The sink has one reader, which it has not been told of yet. */
void outlet_follow_name(struct outlet *outlet) {
  const char *path = outlet->config->sink.path;
  const struct sink *sink = outlet->sink;
  bool gone, is_file = outlet->continues && !outlet->listener && outlet->endpoint.kind == ENDPOINT_FILE && sink->continuing;
  if (!is_file || strcmp(path, "-") == 0 || sink->written > 0 || sink->torn) {
    return;
  }
  struct reader *reader = sink->continuing;
  struct endpoint anew;
  struct failure failure;
  if (!endpoint_has_moved(path, reader->fd, &gone) && !gone) {
    return;
  }
  if (!open_anew(outlet, &anew, &failure)) {
    log_event(LOG_FAILED, outlet->config->name, "somebody has taken '%s' away, and results go on into the old one: %s", path,
              failure.text);
    return;
  }
  log_event(LOG_MOVED, outlet->config->name, "somebody has taken '%s' away: results go on into a new one", path);
  close(reader->fd);
  reader->fd = anew.fd;
  reader->continues = false; /* it begins at the end of this one */
  keeper_mark();
}
