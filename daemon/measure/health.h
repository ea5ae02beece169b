/*
 * Two judgements of one daemon. It is live while its lanes and devices move, which `/v1/live` and systemd's watchdog follow. It
 * is well while, besides, every pipeline does its job, which `/v1/health` and the metrics follow.
 *
 * A device is healthy while frames, or its canary where no frame comes, get through it within the limit, which is half of
 * `gpu.timeout`: an answer comes before the device is given up for lost. Where frames take longer than that by themselves, the
 * limit follows what the warm-up measured. A pipeline with nothing on a device (idle, paused,
 * drained, waiting for a reader) makes nothing unhealthy. The judgement only computes: what is known comes in, times are
 * CLOCK_MONOTONIC ns.
 */
#ifndef FRAMED_MEASURE_HEALTH_H
#define FRAMED_MEASURE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/measure/trouble.h"

enum { HEALTH_WHY = 320, HEALTH_NAME = 72 };

/* How many limits frames may take where those of others complete meanwhile. */
enum { HEALTH_OTHERS_EXCUSE = 5 };

/* After what time without a completion a device is given up, where the slowest frame took `alone_ns` in its warm-up (0: not
 * known): `gpu.timeout`, or a multiple of that frame if that is longer. */
int64_t health_patience(int64_t timeout_ns, int64_t alone_ns);
/* The time within which a frame or a canary has to come back, for that `gpu.timeout`. */
int64_t health_limit(int64_t timeout_ns);
/* How often a device gets a canary where no frame comes. */
int64_t health_period(int64_t timeout_ns);

struct health_moment {
  int64_t now;
  int64_t awake; /* when the whole process was last stopped or frozen: nothing before it counts */
  int64_t limit, period;
  int64_t lane_limit; /* a lane that finished no turn for that long stands still */
};

/* What is on a device, of a pipeline or of all. */
struct health_work {
  uint64_t frames;
  int64_t since; /* of the session that waits longest: when a frame of it last came back, or went there with none of it there */
  int64_t alone; /* what a frame of the slowest session took in its warm-up, whether or not one is there; 0: not known */
};

struct health_device {
  unsigned number;
  const char *fault;       /* what it died of, or NULL */
  struct health_work work; /* of all pipelines */
  int64_t completed;       /* when a frame last came back; 0: never */
  int64_t probed;          /* when a canary last came back, or when that could not be expected */
};

/* -- why something does not do its job ------------------------------------------------------------------------- */

/* name, what it means */
#define HEALTH_REASONS(X)                                                                                                      \
  X(STUCK, "stuck", "frames, canaries or lanes do not move: the daemon is not live")                                           \
  X(FAILED, "failed", "its frames made workers fail too often, and it takes none until it is resumed")                         \
  X(LEFT_OUT, "left_out", "a device failed for good, and sessions that were on it are on others")                              \
  X(NOT_STARTED, "not_started", "it could not start, and is tried until it can")                                               \
  X(WAITING, "waiting", "it lacks something, as room on a disk or a device that works; it is tried again and again")           \
  X(SOURCE, "source", "no frame can come")                                                                                     \
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

/* The time within which a frame has to come back from that device. */
int64_t health_device_limit(const struct health_moment *moment, const struct health_device *device);

/* -- the judgement of one -------------------------------------------------------------------------------------- */

/* ABSENT is a device that failed for good, which nothing needs any more. A TROUBLE is one more reason why a pipeline does not
 * do its job. */
enum health_kind { HEALTH_LANES, HEALTH_DEVICE, HEALTH_ABSENT, HEALTH_PIPELINE, HEALTH_TROUBLE };

struct health_item {
  enum health_kind kind;
  char name[HEALTH_NAME]; /* a device's number or a pipeline's name; "" for the lanes */
  bool ok;
  char why[HEALTH_WHY]; /* a sentence without a full stop; "" if it is ok */
  /* Of what is not ok: */
  enum health_reason reason;
  double since_s;      /* how long it has been so */
  uint64_t count;      /* how often it was seen */
  const char *remedy;  /* "": none is known */
  double age_s;        /* LANES: how long ago the slowest finished a turn */
  double canary_s;     /* DEVICE: how long the last canary took, */
  double canary_age_s; /* and how long ago it came back */
};

/* `beat`: when the slowest lane finished a turn. */
void health_of_lanes(const struct health_moment *moment, int64_t beat, struct health_item *item);
void health_of_device(const struct health_moment *moment, const struct health_device *device, struct health_item *item);
/* Of a device that failed for good at `since`, as `text` says. */
void health_of_left_out(const struct health_moment *moment, unsigned number, int64_t since, const char *text,
                        struct health_item *item);
void health_of_waiting(const struct health_moment *moment, unsigned number, int64_t since, const char *why,
                       struct health_item *item);
void health_of_pipeline(const struct health_moment *moment, const char *name, const struct health_device *device,
                        const struct health_work *work, struct health_item *item);
void health_of_trouble(const struct health_moment *moment, const char *name, enum health_reason reason,
                       const struct trouble *trouble, struct health_item *item);

/* -- and of all ------------------------------------------------------------------------------------------------ */

struct health {
  bool live;           /* lanes, devices and the frames on them move */
  bool ok;             /* and every pipeline does its job */
  double standstill_s; /* how long the control loop stood still at most, within the last minute; it cannot say so before */
  char why[HEALTH_WHY + HEALTH_NAME + 16]; /* the first reason there is, or "" */
  unsigned count;
  struct health_item items[]; /* lanes, devices, those left out, pipelines, troubles */
};

/* Fills `live`, `ok` and `why` from the items. */
void health_sum_up(struct health *health);
/* The first reason why a pipeline does not do its job; NULL if it does. All views show it in the place of a pipeline's state.
 */
const struct health_item *health_find(const struct health *health, const char *pipeline);

#endif
