#include "daemon/measure/history.h"

#include <stdio.h>
#include <string.h>

#include "daemon/measure/clock.h"

#define MINUTE (60 * NS_PER_S)

const char *const succession_names[SUCCESSION_CAUSE_COUNT] = {
#define X(name, text, meaning) text,
    SUCCESSION_CAUSES(X)
#undef X
};

void succession_end(struct succession *succession, enum succession_cause cause, const char *text, int64_t now) {
  succession->cause = cause;
  succession->counts[cause]++;
  succession->stopped = now;
  snprintf(succession->text, sizeof succession->text, "%s", text);
}

void succession_note_fault(struct succession *succession, int64_t now) {
  memmove(succession->faults + 1, succession->faults, sizeof succession->faults - sizeof *succession->faults);
  succession->faults[0] = now;
}

void succession_begin(struct succession *succession, int64_t now) {
  succession->gap = now > succession->stopped ? now - succession->stopped : 1;
  succession->total += succession->gap;
  succession->longest = succession->gap > succession->longest ? succession->gap : succession->longest;
}

bool succession_is_too_fast(const struct succession *succession, unsigned limit, int64_t now) {
  if (limit == 0) {
    return true;
  }
  int64_t first = succession->faults[(limit < SUCCESSION_FAULTS ? limit : SUCCESSION_FAULTS) - 1];
  return first != 0 && now - first < MINUTE;
}
