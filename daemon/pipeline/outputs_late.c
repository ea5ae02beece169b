/*
 * Files that cannot be opened when the outputs start, while the pipeline runs. One case is the file of a recording, because
 * frames and results matter more than their recording. The other is a sink taken over from the previous process, because it has
 * connections. Meanwhile the sink's results wait. A pool thread tries to open the file after a second, then with twice the
 * pause each time, up to a minute.
 */
#include "daemon/base/log.h"
#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"

enum { SHORTEST_MS = 1000, LONGEST_MS = 60000 };

bool outputs_may_come_late(struct outputs *outputs, const struct failure *failure) {
  if (failure->passes) {
    outputs->late.lasts = true;
    outputs->file.failure = *failure;
  }
  return failure->passes;
}

bool outputs_is_late(const struct outputs *outputs) { return outputs->late.lasts; }

static void note_late(struct outputs *outputs) {
  const struct failure *failure = &outputs->file.failure;
  trouble_note(&outputs->troubles[OUTPUT_LATE], clock_now(), failure->remedy, "its file waits: %s", failure->text);
  loop_timer_start(outputs->late.timer, outputs->late.pause_ms, 0);
}

static void on_opened(void *context) {
  struct outputs *outputs = context;
  struct failure failure;
  outputs->file.busy = false;
  if (outputs->file.stop_wanted || outputs->closed) {
    outputs_end_job(outputs); /* outputs_free() handles the file */
    return;
  }
  if (!outputs->file.worked) {
    outputs->late.pause_ms = outputs->late.pause_ms < LONGEST_MS / 2 ? 2 * outputs->late.pause_ms : LONGEST_MS;
    note_late(outputs);
  } else {
    outputs->late.lasts = false;
    outputs->late.timer = loop_timer_close(outputs->late.timer);
    trouble_clear(&outputs->troubles[OUTPUT_LATE]);
    log_event(LOG_SINK_RECOVERED, outputs->config->name, "'%s' can be written now", outputs->config->sink.path);
    if (!outputs_attach_file(outputs, &failure)) {
      outputs->ended = true;
      trouble_note(&outputs->troubles[OUTPUT_ENDS], clock_now(), "restart the daemon", "%s", failure.text);
    } else if (outputs->opened) {
      outputs->opened(outputs->context);
    }
  }
  outputs_end_job(outputs);
}

static void run_open(void *context) {
  struct outputs *outputs = context;
  bool opened = outputs_open_file(outputs, NULL, &outputs->file.failure);
  outputs->file.worked = opened && outputs->endpoint.fd >= 0;
  if (opened && !outputs->file.worked) {
    failure_set(&outputs->file.failure, EXIT_STATUS_CONFIG, "remove it", "'%s' is a FIFO now", outputs->config->sink.path);
  }
}

static void on_time(void *context) {
  struct outputs *outputs = context;
  outputs->file.busy = true;
  outputs_begin_job(outputs, run_open, on_opened);
}

bool outputs_await_file(struct outputs *outputs) {
  outputs->late.timer = loop_timer_new(outputs->loop, on_time, outputs);
  if (!outputs->late.timer) {
    return false;
  }
  outputs->late.pause_ms = SHORTEST_MS;
  log_event(LOG_WAITS, outputs->config->name, "its file waits, and is tried again and again: %s; %s",
            outputs->file.failure.text, outputs->file.failure.remedy);
  note_late(outputs);
  return true;
}
