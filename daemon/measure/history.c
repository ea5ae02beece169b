#include "daemon/measure/history.h"

#include <stdio.h>
#include <string.h>

#include "daemon/measure/clock.h"

#define MINUTE (60 * NS_PER_S)

const char *const history_names[HISTORY_CAUSE_COUNT] = {
#define X(name, text, meaning) text,
    HISTORY_CAUSES(X)
#undef X
};

void history_end(struct history *history, enum history_cause cause, const char *text, int64_t now) {
  history->cause = cause;
  history->counts[cause]++;
  history->stopped = now;
  snprintf(history->text, sizeof history->text, "%s", text);
}

void history_note_fault(struct history *history, int64_t now) {
  memmove(history->faults + 1, history->faults, sizeof history->faults - sizeof *history->faults);
  history->faults[0] = now;
}

void history_begin(struct history *history, int64_t now) {
  history->gap = now > history->stopped ? now - history->stopped : 1;
  history->total += history->gap;
  history->suspects = false;
  history->longest = history->gap > history->longest ? history->gap : history->longest;
}

bool history_is_too_fast(const struct history *history, unsigned limit, int64_t now) {
  if (limit == 0) {
    return true;
  }
  int64_t first = history->faults[(limit < HISTORY_FAULTS ? limit : HISTORY_FAULTS) - 1];
  return first != 0 && now - first < MINUTE;
}

void worker_history_begin(struct worker_history *workers, int64_t now) {
  workers->generation++;
  workers->since = now;
}

void worker_history_replace(struct worker_history *workers, const char *reason, int64_t stopped, int64_t now) {
  worker_history_begin(workers, now);
  workers->replaced++;
  workers->stopped = stopped;
  workers->gap = now > stopped ? now - stopped : 1;
  snprintf(workers->text, sizeof workers->text, "%s", reason);
}
