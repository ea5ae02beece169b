/*
 * Troubles of a pipeline that only show over time: expected frames are missing (silence.c), the sink still loses results,
 * frames get through again after an error. Checked with each reading, every two seconds.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/pipeline/private.h"

/* -- errors that end ------------------------------------------------------------------------------------------------ */

/* Health follows the counters: results were lost since the last check, or not. The sink reports a reason only once. After an
 * upgrade it may not report the end, but then results get through. */
static void watch_writes(struct outputs *outputs, struct watch_counts *before, struct watch_counts counts, int64_t looked,
                         int64_t now) {
  struct trouble *trouble = outputs_cause(outputs, OUTPUT_WRITES);
  uint64_t lost = counts.lost > before->lost ? counts.lost - before->lost : 0;
  bool is_written = counts.emitted > before->emitted || outputs_recovered(outputs);
  *before = counts;
  if (outputs_is_socket(outputs)) {
    return;
  }
  bool is_told = trouble->count > 0 && trouble->since > looked; /* reported by the sink with the first lost result */
  if (lost > 0 && trouble->count == 0) {
    trouble_note(trouble, now, "the log says why; results go on by themselves when the file can be written",
                 "results for '%s' are lost", outputs->config->sink.path);
    is_told = true;
  }
  if (lost > is_told) {
    trouble_repeat(trouble, now, lost - is_told);
  } else if (lost == 0 && trouble->count > 0 && is_written) {
    trouble_clear(trouble);
  }
}

/* Frames for which the recorder's memory had no room. */
static void watch_missed(struct pipeline *pipeline, uint64_t missed, int64_t now) {
  struct trouble *trouble = outputs_cause(pipeline->record, OUTPUT_LAGS);
  uint64_t lost = missed - pipeline->watch.missed;
  pipeline->watch.missed = missed;
  if (lost > 0 && trouble->count == 0) {
    trouble_note(trouble, now, "record onto a faster disk, or give `record` more memory",
                 "frames are missing in the recording: its disk is too slow");
    log_event(LOG_SINK_FAILED, pipeline->config->name, "%s", trouble->text);
    lost--;
  }
  if (lost > 0) {
    trouble_repeat(trouble, now, lost);
  } else if (trouble->last != now) {
    trouble_clear(trouble);
  }
}

static void watch_record(struct pipeline *pipeline, int64_t now) {
  struct recorder_view view;
  recorder_read(pipeline->recorder, &view);
  watch_missed(pipeline, view.missed, now);
  watch_writes(pipeline->record, &pipeline->watch.record, (struct watch_counts){view.emitted, view.lost}, pipeline->watch.at,
               now);
}

static struct watch_counts counts_of(const struct ledger *ledger) {
  return (struct watch_counts){ledger->fates[FATE_EMITTED], ledger->fates[FATE_SINK_ERROR]};
}

static void pipeline_watch(struct pipeline *pipeline, int64_t now) {
  struct ledger ledger;
  pipeline_ledger(pipeline, &ledger);
  pipeline_watch_silence(pipeline, now);
  if (pipeline->state == PIPELINE_RUNNING && ledger.fates[FATE_EMITTED] > pipeline->watch.sink.emitted) {
    trouble_clear(&pipeline->trouble); /* a frame that made the device fail no longer matters once others get through */
  }
  if (pipeline->outputs) {
    watch_writes(pipeline->outputs, &pipeline->watch.sink, counts_of(&ledger), pipeline->watch.at, now);
  }
  if (pipeline->recorder) {
    watch_record(pipeline, now);
  }
  pipeline->watch.sink = counts_of(&ledger);
  pipeline->watch.at = now;
}

/* The previous process may have handled what is counted already. */
void pipeline_watch_begin(struct pipeline *pipeline) {
  struct ledger ledger;
  int64_t now = clock_now();
  pipeline_ledger(pipeline, &ledger);
  pipeline->watch.excused = pipeline->watch.at = now;
  pipeline->watch.sink = counts_of(&ledger);
}

/* Adds the time that its devices' engines worked for this pipeline since the last reading. It assumes that timed frames are
 * typical, and that all sessions had the same number of frames. */
static void add_served(struct pipeline *pipeline, struct reading *reading, const struct reading *before) {
  static const enum step steps[OVERLAP_ENGINES] = {STEP_H2D, STEP_KERNEL, STEP_D2H};
  uint64_t frames = histogram_summarize(&reading->steps[STEP_QUEUE], &before->steps[STEP_QUEUE]).count;
  unsigned seats = inputs_seats(pipeline->inputs);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    enum step step = steps[engine];
    double us = histogram_summarize(&reading->steps[step], &before->steps[step]).mean * (double)frames;
    for (unsigned i = 0; i < seats; i++) {
      const struct engine_placement *placement = &pipeline->placements[i];
      for (unsigned j = 0; j < placement->count; j++) {
        engine_served(pipeline->setup.engine, placement->on[j].number)[engine] += us / (seats * placement->count);
      }
    }
  }
  pipeline_read_served(pipeline, reading);
}

void pipeline_check_file(struct pipeline *pipeline) {
  if (pipeline->outputs) {
    outputs_check_file(pipeline->outputs);
  }
  if (pipeline->record) {
    outputs_check_file(pipeline->record);
  }
}

void pipeline_tick(struct pipeline *pipeline) {
  const struct reading *before = meter_latest(pipeline->meter);
  struct reading *reading = meter_next(pipeline->meter);
  pipeline_read(pipeline, reading);
  if (before) {
    add_served(pipeline, reading, before);
  }
  past_add(&pipeline->past, reading, meter_oldest(pipeline->meter));
  links_expire(&pipeline->links, reading->at);
  pipeline_watch(pipeline, reading->at);
  pipeline_check_file(pipeline);
}

void pipeline_forget_readings(struct pipeline *pipeline) {
  pipeline_tick(pipeline);
  meter_restart(pipeline->meter);
}

void pipeline_report_link(struct pipeline *pipeline, enum link_role role, const struct link_state *state) {
  links_report(&pipeline->links, role, state, clock_now());
}

/* -- reporting -------------------------------------------------------------------------------------------------------- */

/* A pipeline whose file cannot be opened yet is shown as `waiting`, and so is the reason. */
static enum health_reason reason_of(const struct outputs *outputs, enum health_reason reason) {
  return outputs_is_late(outputs) ? HEALTH_WAITING : reason;
}

unsigned pipeline_troubles(struct pipeline *pipeline, struct pipeline_trouble troubles[PIPELINE_TROUBLES]) {
  unsigned count = 0;
  const struct trouble *sink = pipeline->outputs ? outputs_trouble(pipeline->outputs) : NULL;
  const struct trouble *source = pipeline->inputs ? inputs_trouble(pipeline->inputs) : NULL;
  static const enum health_reason reasons[] = {
      [PIPELINE_STARTING] = HEALTH_NOT_STARTED, [PIPELINE_FAILED] = HEALTH_FAILED, [PIPELINE_WAITING] = HEALTH_WAITING};
  if (pipeline->state < sizeof reasons / sizeof reasons[0] && reasons[pipeline->state] && pipeline->trouble.count > 0) {
    troubles[count++] = (struct pipeline_trouble){reasons[pipeline->state], &pipeline->trouble};
  }
  if (source && source->count > 0) {
    troubles[count++] = (struct pipeline_trouble){HEALTH_SOURCE, source};
  }
  const struct camera *camera = pipeline->inputs ? inputs_camera(pipeline->inputs) : NULL;
  if (camera && camera_trouble(camera)->count > 0) {
    troubles[count++] = (struct pipeline_trouble){HEALTH_CAMERA, camera_trouble(camera)};
  }
  if (pipeline->silence.count > 0) {
    troubles[count++] = (struct pipeline_trouble){HEALTH_SILENT, pipeline_silence(pipeline)};
  }
  if (sink && sink->count > 0) {
    troubles[count++] = (struct pipeline_trouble){reason_of(pipeline->outputs, HEALTH_SINK), sink};
  }
  if (pipeline->record && outputs_trouble(pipeline->record)->count > 0) {
    troubles[count++] =
        (struct pipeline_trouble){reason_of(pipeline->record, HEALTH_RECORD), outputs_trouble(pipeline->record)};
  }
  for (enum link_role role = 0; role < LINK_ROLES; role++) {
    if (pipeline->links.states[role].trouble.count > 0) {
      troubles[count++] = (struct pipeline_trouble){HEALTH_BROKER, &pipeline->links.states[role].trouble};
    }
  }
  return count;
}
