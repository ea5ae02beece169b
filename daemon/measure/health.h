/*
 * Two verdicts. The daemon is live while its lanes and devices move; `/v1/live` and systemd's watchdog use this. It is healthy
 * if, in addition, every pipeline works; `/v1/health` and the metrics use this.
 *
 * A device is healthy if frames come back within the limit, or, without frames, if it answers its canary. The limit is half of
 * `gpu.timeout`, so that the answer comes before the device is declared lost. If frames take longer by nature, the limit
 * follows the warm-up. A pipeline without a frame on a device (idle, paused, drained, waiting for a reader) is healthy. This
 * module only computes: values are parameters, times are CLOCK_MONOTONIC ns.
 */
#ifndef FRAMED_MEASURE_HEALTH_H
#define FRAMED_MEASURE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/measure/trouble.h"

enum { HEALTH_WHY = 320, HEALTH_NAME = 72 };

/* Limits that frames may take while frames of others complete. */
enum { HEALTH_OTHERS_EXCUSE = 5 };

/* Time without a completion after which a device is declared lost: `gpu.timeout`, or a multiple of `alone_ns`, if that is
 * longer. `alone_ns` is the slowest frame's warm-up time (0: unknown). */
int64_t health_patience(int64_t timeout_ns, int64_t alone_ns);
/* Maximum time for a frame or a canary with that `gpu.timeout`. */
int64_t health_limit(int64_t timeout_ns);
/* How often a worker asks its device whether it answers. */
int64_t health_period(int64_t timeout_ns);

struct health_moment {
  int64_t now;
  int64_t awake; /* end of the last stop of the whole process; earlier time does not count */
  int64_t limit, period;
  int64_t lane_limit; /* maximum time between finished turns of a lane */
};

/* Frames on a device, of one pipeline or of all. */
struct health_work {
  uint64_t frames;
  /* For the session that waits longest: when a frame last came back, or went there while none was there. */
  int64_t since;
  int64_t alone; /* warm-up time of the slowest session's frame; 0: unknown */
};

struct health_device {
  unsigned number;
  struct health_work work; /* of all pipelines */
  int64_t completed;       /* when a frame last came back; 0: never */
  int64_t probed;          /* when the device last answered its canary, or could not be expected to */
  double canary_s;         /* how long that answer took */
  double canary_age_s;     /* how long ago it came */
};

/* -- why something does not work ------------------------------------------------------------------------------- */

/* name, text, meaning */
#define HEALTH_REASONS(X)                                                                                                      \
  X(STUCK, "stuck", "frames, canaries or lanes do not move: the daemon is not live")                                           \
  X(FAILED, "failed", "its frames made workers fail too often, and it takes none until it is resumed")                         \
  X(LEFT_OUT, "left_out", "a device failed for good, and sessions that were on it are on others")                              \
  X(NOT_STARTED, "not_started", "it could not start, and is tried until it can")                                               \
  X(WAITING, "waiting", "it lacks something, as room on a disk or a device that works; it is tried again and again")           \
  X(SOURCE, "source", "no frame can come")                                                                                     \
  X(CAMERA, "camera", "no picture comes from its camera, or not all of them; it is tried again and again")                     \
  X(SILENT, "silent", "no frame has come for longer than its source's `expect`")                                               \
  X(SINK, "sink", "results are lost, or have nowhere to go")                                                                   \
  X(RECORD, "record", "frames are missing in its recording")                                                                   \
  X(BROKER, "broker", "a link of its has no broker, or trouble with it")

enum health_reason {
#define X(name, text, meaning) HEALTH_##name,
  HEALTH_REASONS(X)
#undef X
      HEALTH_REASON_COUNT
};

extern const char *const health_reason_names[HEALTH_REASON_COUNT];

/* Maximum time for a frame on that device. */
int64_t health_device_limit(const struct health_moment *moment, const struct health_device *device);

/* -- judging one item ------------------------------------------------------------------------------------------ */

/* ABSENT: a device that failed permanently and is no longer needed. TROUBLE: a further reason why a pipeline does not work. */
enum health_kind { HEALTH_LANES, HEALTH_DEVICE, HEALTH_ABSENT, HEALTH_PIPELINE, HEALTH_TROUBLE };

struct health_item {
  enum health_kind kind;
  char name[HEALTH_NAME]; /* number of a device or name of a pipeline; "" for the lanes */
  bool ok;
  char why[HEALTH_WHY]; /* a sentence without a full stop; "" if it is ok */
  /* The following is valid if it is not ok. */
  enum health_reason reason;
  double since_s;      /* for how long */
  uint64_t count;      /* how often it was seen */
  const char *remedy;  /* "": unknown */
  double age_s;        /* LANES: seconds since the slowest lane finished a turn */
  double canary_s;     /* DEVICE: duration of the last canary */
  double canary_age_s; /* seconds since it came back */
};

/* `beat`: when the slowest lane finished a turn. */
void health_of_lanes(const struct health_moment *moment, int64_t beat, struct health_item *item);
void health_of_device(const struct health_moment *moment, const struct health_device *device, struct health_item *item);
/* For a device that failed permanently at `since`; `text` is the reason. */
void health_of_left_out(const struct health_moment *moment, unsigned number, int64_t since, const char *text,
                        struct health_item *item);
void health_of_waiting(const struct health_moment *moment, unsigned number, int64_t since, const char *why,
                       struct health_item *item);
void health_of_pipeline(const struct health_moment *moment, const char *name, const struct health_device *device,
                        const struct health_work *work, struct health_item *item);
void health_of_trouble(const struct health_moment *moment, const char *name, enum health_reason reason,
                       const struct trouble *trouble, struct health_item *item);

/* -- the summary ----------------------------------------------------------------------------------------------- */

struct health {
  bool live; /* lanes, devices and the frames on them move */
  bool ok;   /* in addition every pipeline works */
  /* Longest stop of the control loop within the last minute, which it can only report afterwards. */
  double standstill_s;
  char why[HEALTH_WHY + HEALTH_NAME + 16]; /* the first reason, or "" */
  unsigned count;
  struct health_item items[]; /* lanes, devices, absent devices, pipelines, troubles */
};

/* Computes `live`, `ok` and `why` from the items. */
void health_sum_up(struct health *health);
/* The first reason why a pipeline does not work, or NULL. All views show it as the pipeline's state. */
const struct health_item *health_find(const struct health *health, const char *pipeline);

#endif
