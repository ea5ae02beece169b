#include "daemon/measure/ledger.h"

const char *const fate_names[FATE_COUNT] = {
#define X(name, text, meaning) text,
    FATES(X)
#undef X
};

const char *const fate_meanings[FATE_COUNT] = {
#define X(name, text, meaning) meaning,
    FATES(X)
#undef X
};

const char *const step_names[STEP_COUNT] = {
#define X(name, text, help) text,
    STEPS(X)
#undef X
};

const char *const step_help[STEP_COUNT] = {
#define X(name, text, help) help,
    STEPS(X)
#undef X
};

void ledger_add(struct ledger *sum, const struct ledger *other) {
  sum->in += other->in;
  sum->in_flight += other->in_flight;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    sum->fates[fate] += other->fates[fate];
  }
  sum->in_bytes += other->in_bytes;
  sum->out_bytes += other->out_bytes;
}
