#include "daemon/succession.h"

#include <stdio.h>
#include <string.h>

#include "daemon/clock.h"

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

void succession_pass(struct succession *succession, struct tape *tape) {
  unsigned cause = succession->cause;
  TAPE_PASS(tape, succession->counts);
  tape_pass_below(tape, &cause, SUCCESSION_CAUSE_COUNT);
  succession->cause = (enum succession_cause)cause;
  TAPE_PASS(tape, succession->text);
  tape_pass_time(tape, &succession->stopped);
  tape_pass_time(tape, &succession->longest);
  tape_pass_time(tape, &succession->total);
  TAPE_PASS(tape, succession->closed);
  for (unsigned i = 0; i < SUCCESSION_FAULTS; i++) {
    tape_pass_time(tape, &succession->faults[i]);
  }
  succession->text[sizeof succession->text - 1] = '\0';
}

bool succession_replace(struct succession *succession, struct tape *tape, size_t at) {
  struct tape part;
  tape_begin(&part);
  succession_pass(succession, &part);
  bool fits = !part.broken && at <= tape->length && part.length <= tape->length - at;
  if (fits) {
    memcpy(tape->bytes + at, part.bytes, part.length);
  }
  tape_clear(&part);
  return fits;
}
