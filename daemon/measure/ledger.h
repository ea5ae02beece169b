/*
 * The ledger: every frame that came in has exactly one fate or is in flight.
 *
 * The lane that owns a session writes its ledger under a sequence lock, so every copy balances: in == emitted + sum(dropped) +
 * in_flight. The session counts in_flight separately (slots, discards, results under way) and does not derive it, so that a
 * lost frame shows.
 */
#ifndef FRAMED_MEASURE_LEDGER_H
#define FRAMED_MEASURE_LEDGER_H

#include <stdint.h>

/* name, text, meaning */
#define FATES(X)                                                                                                               \
  X(EMITTED, "emitted", "a reader or the file took the last byte")                                                             \
  X(OLDEST, "oldest", "a newer frame took its place (overload: drop-oldest)")                                                  \
  X(NEWEST, "newest", "no slot was free when it came (overload: drop-newest)")                                                 \
  X(LATE, "late", "older than the deadline when its turn on the device came")                                                  \
  X(INVALID, "invalid", "truncated or malformed, or no input for its model")                                                   \
  X(GPU_FAULT, "gpu_fault", "its worker failed twice while it ran alone")                                                      \
  X(CLIENT_GONE, "client_gone", "the client that would get the reply left")                                                    \
  X(UNREAD, "unread", "no reader took it")                                                                                     \
  X(SINK_ERROR, "sink_error", "the file could not be written")                                                                 \
  X(SHUTDOWN, "shutdown", "still unfinished when the drain limit passed or the pipeline was removed")

enum fate {
#define X(name, text, meaning) FATE_##name,
  FATES(X)
#undef X
      FATE_COUNT
};

/* name, text, help */
#define STEPS(X)                                                                                                               \
  X(RECEIVE, "receive", "from a frame's first byte to its last")                                                               \
  X(QUEUE, "queue", "from its last byte to its dispatch to the device")                                                        \
  X(GPU_WAIT, "gpu_wait", "on the device, waiting for an engine or handed from one to the next")                               \
  X(H2D, "h2d", "copy to the device")                                                                                          \
  X(KERNEL, "kernel", "the stages on the device")                                                                              \
  X(MODEL, "model", "of the stages, those that run a model")                                                                   \
  X(D2H, "d2h", "copy from the device")                                                                                        \
  X(WAKE, "wake", "from the end of its work on the device until the lane took notice")                                         \
  X(EMIT, "emit", "from then until a reader or the file took the last byte")                                                   \
  X(TOTAL, "total", "from the first byte in to the last byte out")

enum step {
#define X(name, text, help) STEP_##name,
  STEPS(X)
#undef X
      STEP_COUNT
};

extern const char *const fate_names[FATE_COUNT];
extern const char *const fate_meanings[FATE_COUNT];
extern const char *const step_names[STEP_COUNT];
extern const char *const step_help[STEP_COUNT];

struct ledger {
  uint64_t in;
  uint64_t in_flight;
  uint64_t fates[FATE_COUNT];
  uint64_t in_bytes, out_bytes;
};

/* Adds `other` to `sum`, field by field. */
void ledger_add(struct ledger *sum, const struct ledger *other);

#endif
