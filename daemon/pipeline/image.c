/*
 * A pipeline through a codec: its state, its source side with the sessions, then its sink side, whose results point to the
 * sessions. Here it is also decided that a pipeline whose frames make the device fail again and again takes no more.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/codec.h"
#include "daemon/state/state.h"

#define MINUTE (60 * NS_PER_S)

/* A file counts as a reader, and so does a client whose handshake is under way. */
static bool has_readers(const struct pipeline *pipeline) {
  return pipeline->outputs && outputs_readers(pipeline->outputs) + outputs_visitors(pipeline->outputs) > 0;
}

static enum pipeline_state state_to_come(const struct pipeline *pipeline) {
  return pipeline->state >= PIPELINE_STOPPING ? pipeline->before : pipeline->state;
}

/* A pipeline that could not start yet but has readers starts in the next process, with these readers; not after a kill, since
 * only readers of running pipelines were at work. */
static enum pipeline_state state_of(const struct pipeline *pipeline, const struct codec *codec) {
  enum pipeline_state state = state_to_come(pipeline);
  return state == PIPELINE_STARTING && !codec->live && has_readers(pipeline) ? PIPELINE_RUNNING : state;
}

static void pass_pipeline(struct pipeline *pipeline, struct codec *codec) {
  char *name = pipeline->config->name;
  unsigned state = state_of(pipeline, codec);
  bool accounted = pipeline->accounted && !codec->by_manager; /* a process that systemd starts does not go on stopping */
  bool late = state_to_come(pipeline) == PIPELINE_STARTING;
  codec_pass_text(codec, &name);
  codec_pass_below(codec, &state, PIPELINE_STOPPING);
  CODEC_PASS(codec, accounted);
  CODEC_PASS(codec, late);
  for (unsigned i = 0; i < PIPELINE_TOO_MANY; i++) {
    codec_pass_time(codec, &pipeline->quarantined[i]);
  }
  trouble_pass(&pipeline->trouble, codec);
  trouble_pass(&pipeline->silence, codec);
  if (!codec->writing) {
    if (!name || strcmp(name, pipeline->config->name) != 0) {
      codec_break(codec);
    }
    free(name);
    pipeline->continues_as = (enum pipeline_state)state;
    pipeline->accounted = accounted;
    pipeline->was_late = late;
  }
}

/* A file that has not answered a request may still carry it out: the pipeline cannot be handed over until it has, but for a
 * kill. */
static bool has_whole_files(const struct pipeline *pipeline, const struct codec *codec) {
  return codec->live || !pipeline_awaited_file(pipeline, INT64_MAX);
}

/* Whether the pipeline goes on in the next process: not if it could not start yet and has no reader, nor if its file does not
 * answer. */
static bool pass_going_on(struct pipeline *pipeline, struct codec *codec) {
  bool goes_on = codec->writing && state_of(pipeline, codec) != PIPELINE_STARTING && has_whole_files(pipeline, codec);
  CODEC_PASS(codec, goes_on);
  if (goes_on && !codec->writing && pipeline->continues_as == PIPELINE_STARTING) {
    codec_break(codec);
  }
  return goes_on;
}

bool pipeline_may_start_later(const struct pipeline *pipeline) {
  return pipeline->was_late && (!pipeline->continues || pipeline->outputs_started);
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

unsigned pipeline_running_frames(const struct pipeline *pipeline, unsigned device) {
  return inputs_running(pipeline->inputs, device);
}

void pipeline_suspect(struct pipeline *pipeline, bool failed, unsigned device, bool alone) {
  inputs_suspect(pipeline->inputs, failed, device, alone);
}

bool pipeline_may_be_put(const struct pipeline *pipeline, bool stops_again) {
  return stops_again || (pipeline->state < PIPELINE_STOPPED && !pipeline->cut);
}

void pipeline_recall_recording(struct pipeline *pipeline) {
  if (pipeline->recording) {
    outputs_recall(pipeline->record);
  }
}

void pipeline_put(struct pipeline *pipeline, struct codec *codec) {
  pass_pipeline(pipeline, codec);
  if (!pass_going_on(pipeline, codec)) {
    return;
  }
  if (pipeline->recording && !codec->live) {
    recorder_flush(pipeline->recorder);
  }
  inputs_put(pipeline->inputs, codec);
  if (pipeline->outputs) {
    outputs_put(pipeline->outputs, codec);
  }
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

void pipeline_take(struct pipeline *pipeline, struct codec *codec) {
  pass_pipeline(pipeline, codec);
  pipeline->continues = pass_going_on(pipeline, codec);
}

static void note_condemned(struct pipeline *pipeline, unsigned count) {
  int64_t now = clock_now();
  for (unsigned i = 0; i < count; i++) {
    memmove(pipeline->quarantined + 1, pipeline->quarantined, sizeof pipeline->quarantined - sizeof *pipeline->quarantined);
    pipeline->quarantined[0] = now;
  }
  int64_t first = pipeline->quarantined[PIPELINE_TOO_MANY - 1];
  if (count > 0 && first != 0 && now - first < MINUTE) {
    pipeline->continues_as = PIPELINE_FAILED;
  }
}

static struct flow *flow_of(void *context, unsigned producer) {
  const struct pipeline *pipeline = context;
  return producer < inputs_seats(pipeline->inputs) ? session_road(inputs_session(pipeline->inputs, producer)) : NULL;
}

bool pipeline_take_outlet(struct pipeline *pipeline, struct codec *codec, struct failure *failure) {
  pipeline->now_condemned = inputs_condemned(pipeline->inputs, &pipeline->last_condemned);
  note_condemned(pipeline, pipeline->now_condemned);
  return (!pipeline->outputs || outputs_take(pipeline->outputs, codec, flow_of, pipeline, failure)) &&
         inputs_taken(pipeline->inputs, failure);
}
