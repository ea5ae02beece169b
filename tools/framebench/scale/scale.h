/*
 * A daemon with a pipeline for each work and number of devices, started before this process uses a device. Then this process
 * opens these devices, too.
 */
#ifndef FRAMED_FRAMEBENCH_SCALE_SCALE_H
#define FRAMED_FRAMEBENCH_SCALE_SCALE_H

#include "tools/framebench/common/own_daemon.h"
#include "tools/framebench/common/results.h"
#include "tools/framebench/scale/work.h"

enum { SCALE_COUNTS = 8, SCALE_NAME = 16 };

struct scale {
  const struct options *options;
  struct results *results;
  bool cuda;
  struct own_daemon *daemon;
  struct work works[WORK_MOST];
  unsigned work_count;
  unsigned counts[SCALE_COUNTS], count_count; /* of devices: 1, 2, 4 and so on, and all */
  struct gpu_device *devices[OPTIONS_MOST_DEVICES];
};

/* The caller calls scale_close() in any case. */
bool scale_open(struct scale *scale, const struct options *options, struct results *results, struct problem *problem);
void scale_close(struct scale *scale);

/* The pipeline of that work on scale->counts[at] devices. Returns name. */
const char *scale_pipeline(const struct scale *scale, unsigned work, unsigned at, char name[SCALE_NAME]);
/*
 * Measures the daemon. `rate`: frames per second of all sessions, 0: as fast as possible. Returns a row of load_section, or
 * NULL.
 */
json_t *scale_load(const struct scale *scale, unsigned work, unsigned at, double rate, struct problem *problem);
/* Measures one frame at a time of one client on one device. */
json_t *scale_load_one(const struct scale *scale, unsigned work, struct problem *problem);
/* Measures loops without the daemon: frames per second of all these devices at once. */
bool scale_alone(const struct scale *scale, unsigned work, unsigned at, double *rate, struct problem *problem);

#endif
