/*
 * Taking over a pipeline: its state, then its source side with the sessions, then its sink side, whose results are in the
 * sessions' slots. Also decides when a pipeline whose frames make the device fail accepts no more.
 */
#include <inttypes.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

#define MINUTE (60 * NS_PER_S)

bool pipeline_may_start_later(const struct pipeline *pipeline) {
  return !pipeline->continues || (pipeline->was_late && pipeline->outputs_started);
}

/* -- handing over --------------------------------------------------------------------------------------------------- */

unsigned pipeline_suspect(struct pipeline *pipeline, unsigned device, bool failed, bool alone) {
  unsigned running = 0;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    running += session_suspect(inputs_session(pipeline->inputs, i), device, failed, alone);
  }
  return running;
}

const struct session *pipeline_oldest_on(const struct pipeline *pipeline, unsigned device, int64_t *since) {
  const struct session *found = NULL;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    const struct session *session = inputs_session(pipeline->inputs, i);
    const int64_t oldest = session_oldest_on(session, device);
    found = oldest < *since ? session : found;
    *since = oldest < *since ? oldest : *since;
  }
  return found;
}

bool pipeline_rewind(struct pipeline *pipeline, unsigned device, struct failure *failure) {
  bool rewound = true;
  pipeline->just_quarantined = 0;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs) && rewound; i++) {
    struct session *session = inputs_session(pipeline->inputs, i);
    rewound = session_rewind(session, device, failure);
    pipeline->just_quarantined += session_quarantined(session, &pipeline->last_quarantined);
  }
  return rewound;
}

bool pipeline_may_be_handed_over(const struct pipeline *pipeline, bool stops_again) {
  return stops_again || (pipeline->state < PIPELINE_STOPPED && !pipeline->cut);
}

void pipeline_recall_recording(struct pipeline *pipeline) {
  if (pipeline->recording) {
    outputs_recall(pipeline->record);
  }
}

/* A file request that has not been answered may still be carried out. The next process must not continue the pipeline then,
 * except after a kill. */
void pipeline_keep(struct pipeline *pipeline, bool program, bool live) {
  pipeline->must_restart = !live && pipeline_awaited_file(pipeline, INT64_MAX);
  if (!pipeline->inputs || pipeline->must_restart) {
    return;
  }
  uint64_t missed = pipeline->recording && !live ? recorder_flush(pipeline->recorder) : 0;
  if (missed > 0) {
    log_event(LOG_SINK_FAILED, pipeline->config->name,
              "%" PRIu64 " frames are missing in the recording: its disk did not take them before the hand-over", missed);
  }
  inputs_keep(pipeline->inputs, program, live);
  if (pipeline->outputs) {
    outputs_keep(pipeline->outputs, live);
  }
}

/* -- taking over ---------------------------------------------------------------------------------------------------- */

bool pipeline_adopt(struct pipeline *pipeline, const struct pipeline *left) {
  enum pipeline_state state = (unsigned)left->state >= PIPELINE_STOPPING ? left->before : left->state;
  bool sound = (unsigned)state < PIPELINE_STOPPING && (unsigned)left->wait.then <= PIPELINE_DRAINED &&
               IMAGE_IS_FLAG(left->accounted) && IMAGE_IS_FLAG(left->must_restart) &&
               trouble_adopt(&pipeline->trouble, &left->trouble) && trouble_adopt(&pipeline->silence, &left->silence);
  for (unsigned i = 0; i < PIPELINE_QUARANTINE_LIMIT && sound; i++) {
    pipeline->quarantined[i] = left->quarantined[i];
    sound = image_is_time(left->quarantined[i]);
  }
  if (sound) {
    pipeline->was_late = state == PIPELINE_STARTING;
    pipeline->accounted =
        left->accounted && !state_left()->by_manager; /* a process that systemd starts does not continue to stop */
    pipeline->wait.then = left->wait.then;
    /* A pipeline that could not start but has readers starts now, with these. After a kill only a running one had active
     * readers. */
    bool is_ready = pipeline->was_late && !state_left()->live && outputs_left_readers(left->outputs);
    pipeline->continues_as = is_ready ? PIPELINE_RUNNING : state;
    pipeline->continues =
        pipeline->continues_as != PIPELINE_STARTING && state != PIPELINE_WAITING && (!left->must_restart || state_left()->live);
  }
  return sound;
}

/* True if too many frames were quarantined in a short time. */
static bool count_quarantined(struct pipeline *pipeline, unsigned count) {
  int64_t now = clock_now();
  for (unsigned i = 0; i < count; i++) {
    memmove(pipeline->quarantined + 1, pipeline->quarantined, sizeof pipeline->quarantined - sizeof *pipeline->quarantined);
    pipeline->quarantined[0] = now;
  }
  int64_t first = pipeline->quarantined[PIPELINE_QUARANTINE_LIMIT - 1];
  return count > 0 && first != 0 && now - first < MINUTE;
}

bool pipeline_has_too_many_quarantined(struct pipeline *pipeline) {
  return count_quarantined(pipeline, pipeline->just_quarantined);
}

static struct flow *flow_of(void *context, unsigned producer) {
  const struct pipeline *pipeline = context;
  return producer < inputs_seats(pipeline->inputs) ? session_own_flow(inputs_session(pipeline->inputs, producer), producer)
                                                   : NULL;
}

bool pipeline_adopt_outputs(struct pipeline *pipeline, const struct pipeline *left, struct failure *failure) {
  const struct inputs *inputs = pipeline->inputs;
  for (unsigned i = 0; i < inputs_seats(inputs); i++) {
    pipeline->just_quarantined += session_quarantined(inputs_session(inputs, i), &pipeline->last_quarantined);
  }
  if (count_quarantined(pipeline, pipeline->just_quarantined)) {
    pipeline->continues_as = PIPELINE_FAILED;
  }
  bool taken = !pipeline->outputs || outputs_adopt(pipeline->outputs, left->outputs, flow_of, pipeline, failure);
  for (unsigned i = 0; i < inputs_seats(inputs) && taken; i++) {
    taken = session_taken(inputs_session(inputs, i), failure);
  }
  return taken;
}
