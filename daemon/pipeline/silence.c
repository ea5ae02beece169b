/*
 * Silence: no frame comes to a pipeline although its source expects one. The text is made when it is read, so that it names the
 * last refused producer.
 */
#include "daemon/base/log.h"
#include "daemon/pipeline/private.h"

static double silence_seconds(int64_t ns) { return (double)ns / (double)NS_PER_S; }

/* Longest time without a frame: the configured one, or three frames of a paced file, so that a busy machine does not count. 0:
 * unknown. */
static int64_t frame_expected(const struct config_source *source) {
  int64_t periods = source->rate > 0 && source->rate < 3 ? (int64_t)(3 * (double)NS_PER_S / source->rate) : NS_PER_S;
  bool paced = source->endpoint == CONFIG_FILE && source->rate > 0;
  return source->expect_ns > 0 || !paced ? source->expect_ns : periods;
}

/* A producer that was refused since the last frame is the likely reason. */
static void describe_silence(struct pipeline *pipeline) {
  const struct refusal *refusal = &inputs_refusals(pipeline->inputs)->last;
  bool is_refused = refusal->at > pipeline_last_in(pipeline), connected = inputs_producers(pipeline->inputs) > 0;
  const char *remedy = is_refused && refusal->remedy[0] ? refusal->remedy
                       : connected ? "see what the producer waits for, and whether the camera still delivers"
                                   : "start its producer";
  trouble_describe(&pipeline->silence, remedy, "no frame comes, and %.3g s is what `expect` of its source allows: %s%s%s",
                   silence_seconds(frame_expected(&pipeline->config->source)),
                   connected    ? "its producer is connected"
                   : is_refused ? ""
                                : "no producer is connected",
                   connected && is_refused ? ", and " : "", is_refused ? refusal->text : "");
}

static void fall_silent(struct pipeline *pipeline, int64_t now, int64_t heard) {
  trouble_repeat(&pipeline->silence, now, 1);
  describe_silence(pipeline);
  pipeline->silence.since = heard;
  log_event(LOG_SILENT, pipeline->config->name, "for %.3g s %s", silence_seconds(now - heard), pipeline->silence.text);
}

const struct trouble *pipeline_silence(struct pipeline *pipeline) {
  if (pipeline->silence.count > 0) {
    describe_silence(pipeline);
  }
  return &pipeline->silence;
}

void pipeline_watch_silence(struct pipeline *pipeline, int64_t now) {
  int64_t expected = frame_expected(&pipeline->config->source), last = pipeline_last_in(pipeline);
  enum session_waiting waiting = pipeline_waiting(pipeline);
  bool is_held_up = waiting == WAITING_FOR_READER || waiting == WAITING_FOR_GPU || waiting == WAITING_FOR_RESUME;
  if (pipeline->state != PIPELINE_RUNNING || inputs_ended(pipeline->inputs) || is_held_up) { /* frames are not expected now */
    pipeline->watch.excused = now;
  }
  int64_t heard = last > pipeline->watch.excused ? last : pipeline->watch.excused;
  if (pipeline->silence.count > 0 && last > pipeline->silence.since) {
    log_event(LOG_HEARD, pipeline->config->name, "frames come again, after %.3g s without one",
              silence_seconds(last - pipeline->silence.since));
    trouble_clear(&pipeline->silence);
  } else if (pipeline->silence.count == 0 && expected > 0 && now - heard > expected) {
    fall_silent(pipeline, now, heard);
  }
}
