/*
 * A pipeline over a tape: its state, its source side with the sessions, then its sink side, whose results point to them. Here
 * it is also decided that a pipeline whose frames make the device fail again and again takes no more.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/codec.h"
#include "daemon/state/fd_store.h"

#define MINUTE (60 * NS_PER_S)

/* A file is one as well, and so is who is being greeted. */
static bool has_readers(const struct pipeline *pipeline) {
  return pipeline->outlet && outlet_readers(pipeline->outlet) + outlet_visitors(pipeline->outlet) > 0;
}

static enum pipeline_state state_to_come(const struct pipeline *pipeline) {
  return pipeline->state >= PIPELINE_STOPPING ? pipeline->before : pipeline->state;
}

/* One that could not start yet, and has readers already, does so in the next process with them; not after a kill, for which
 * only those of running ones are noted. */
static enum pipeline_state state_of(const struct pipeline *pipeline, const struct tape *tape) {
  enum pipeline_state state = state_to_come(pipeline);
  return state == PIPELINE_STARTING && !tape->live && has_readers(pipeline) ? PIPELINE_RUNNING : state;
}

static void pass_pipeline(struct pipeline *pipeline, struct tape *tape) {
  char *name = pipeline->config->name;
  unsigned state = state_of(pipeline, tape);
  bool accounted = pipeline->accounted && !tape->by_manager; /* another process does not go on stopping */
  bool late = state_to_come(pipeline) == PIPELINE_STARTING;
  tape_pass_text(tape, &name);
  tape_pass_below(tape, &state, PIPELINE_STOPPING);
  TAPE_PASS(tape, accounted);
  TAPE_PASS(tape, late);
  for (unsigned i = 0; i < PIPELINE_TOO_MANY; i++) {
    tape_pass_time(tape, &pipeline->condemned[i]);
  }
  if (!tape->writing) {
    if (!name || strcmp(name, pipeline->config->name) != 0) {
      tape_break(tape);
    }
    free(name);
    pipeline->continues_as = (enum pipeline_state)state;
    pipeline->accounted = accounted;
    pipeline->was_late = late;
  }
}

/* One that begins anew does so at the sockets that it had. */
static void pass_listener(const struct listener *listener, struct tape *tape) {
  bool passed = listener && listener_is_passed(listener);
  bool comes_again = passed && tape->by_manager; /* from systemd */
  int fd = listener && !comes_again ? listener_fd(listener) : -1;
  tape_pass_descriptor(tape, &fd);
  TAPE_PASS(tape, passed);
  if (!tape->writing && fd >= 0) {
    keeper_found(fd, passed);
  }
}

/* Nobody knows what becomes of the request that is under way. */
static bool has_whole_files(const struct pipeline *pipeline, const struct tape *tape) {
  return tape->live || !pipeline_awaited_file(pipeline, INT64_MAX);
}

/* Whether it goes on: not one that could not start yet and has no reader, nor one whose file does not answer, nor, after a
 * kill, one that notes nothing. */
static bool pass_going_on(struct pipeline *pipeline, struct tape *tape) {
  bool goes_on = tape->writing && state_of(pipeline, tape) != PIPELINE_STARTING && has_whole_files(pipeline, tape) &&
                 (!tape->live || intake_is_noted(pipeline->intake));
  TAPE_PASS(tape, goes_on);
  if (!goes_on) {
    pass_listener(tape->writing ? pipeline_source_listener(pipeline) : NULL, tape);
    pass_listener(tape->writing ? pipeline_sink_listener(pipeline) : NULL, tape);
  } else if (!tape->writing && pipeline->continues_as == PIPELINE_STARTING) {
    tape_break(tape);
  }
  return goes_on;
}

bool pipeline_may_start_later(const struct pipeline *pipeline) {
  return pipeline->was_late && (!pipeline->continues || pipeline->outlet_started);
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

unsigned pipeline_running_frames(const struct pipeline *pipeline) { return intake_running(pipeline->intake); }

void pipeline_suspect(struct pipeline *pipeline, bool failed, bool alone) { intake_suspect(pipeline->intake, failed, alone); }

bool pipeline_may_be_put(const struct pipeline *pipeline, bool stops_again) {
  return stops_again || (pipeline->state < PIPELINE_STOPPED && !pipeline->cut);
}

void pipeline_put(struct pipeline *pipeline, struct tape *tape) {
  pass_pipeline(pipeline, tape);
  if (!pass_going_on(pipeline, tape)) {
    return;
  }
  intake_put(pipeline->intake, tape);
  if (pipeline->outlet) {
    outlet_put(pipeline->outlet, tape);
  }
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

void pipeline_take(struct pipeline *pipeline, struct tape *tape) {
  pass_pipeline(pipeline, tape);
  pipeline->continues = pass_going_on(pipeline, tape);
}

static void note_condemned(struct pipeline *pipeline, unsigned count) {
  int64_t now = clock_now();
  for (unsigned i = 0; i < count; i++) {
    memmove(pipeline->condemned + 1, pipeline->condemned, sizeof pipeline->condemned - sizeof *pipeline->condemned);
    pipeline->condemned[0] = now;
  }
  int64_t first = pipeline->condemned[PIPELINE_TOO_MANY - 1];
  if (count > 0 && first != 0 && now - first < MINUTE) {
    pipeline->continues_as = PIPELINE_FAILED;
  }
}

static struct road *road_of(void *context, unsigned seat) {
  const struct pipeline *pipeline = context;
  return seat < intake_seats(pipeline->intake) ? session_road(intake_session(pipeline->intake, seat)) : NULL;
}

bool pipeline_take_outlet(struct pipeline *pipeline, struct tape *tape, struct failure *failure) {
  pipeline->now_condemned = intake_condemned(pipeline->intake, &pipeline->last_condemned);
  note_condemned(pipeline, pipeline->now_condemned);
  return (!pipeline->outlet || outlet_take(pipeline->outlet, tape, road_of, pipeline, failure)) &&
         intake_taken(pipeline->intake, failure);
}
