/*
 * What pipelines run on: the GPU devices and the lanes. Opened before the first pipeline, closed after the last.
 *
 * Devices come first, since CUDA must be started before any thread that may use it. Everything here belongs to the
 * control loop, except where it says otherwise.
 */
#ifndef FRAMED_PIPELINE_ENGINE_H
#define FRAMED_PIPELINE_ENGINE_H

#include "config/config.h"
#include "daemon/base/lane.h"
#include "daemon/base/processors.h"
#include "daemon/device/device.h"
#include "daemon/frame/fault.h"
#include "daemon/frame/flow.h"
#include "daemon/measure/overlap.h"

struct engine;

enum { ENGINE_NAME = 128, ENGINE_TEXT = 320, ENGINE_MOST_DEVICES = 64 };

/* A device that is left out: nothing opens it, and sessions that could be on it are on others. */
enum engine_absence {
  ENGINE_DRAINED, /* somebody asked for it */
  ENGINE_FAILED   /* it is broken for good */
};
struct engine_absent {
  unsigned number;
  unsigned why;  /* enum engine_absence */
  int64_t since; /* CLOCK_MONOTONIC ns */
  char name[ENGINE_NAME], text[ENGINE_TEXT];
};
extern const char *const engine_absence_names[];

/* Opens the devices that the configuration names, but for those that are left out, then starts the lanes. `left`: where the
 * engine of the process before lay, which knew something about them; or NULL. A device that cannot be opened is left out, if
 * every pipeline has another one. Blocks. NULL on error. */
struct engine *engine_open(const struct config *config, const struct engine *left, bool hurries, struct failure *failure);
/* Everything runs: nothing needs to hurry any more. */
void engine_calm(struct engine *engine);
/* Before an orderly end: what was measured of the devices is for the next process to know. */
void engine_keep(struct engine *engine);
/* What `left`, the engine of the process before, knows of devices that are left out is what this one knows: for the next image,
 * which takes it up once more. */
bool engine_keep_absents(const struct engine *engine, const struct engine *left);
/* Ends the lanes and closes the devices; nothing may be left on them. NULL is fine; returns NULL. */
struct engine *engine_close(struct engine *engine);

/* NULL if it was not opened at the start. */
struct device *engine_device(const struct engine *engine, unsigned index);
/* Where the lanes note the time of that device's last completion (CLOCK_MONOTONIC ns); NULL if it was not opened. */
_Atomic int64_t *engine_completion(const struct engine *engine, unsigned index);
/* What a frame of the slowest pipeline on that device took in its warm-up, for the lanes; 0: not known. */
_Atomic int64_t *engine_slowest(const struct engine *engine, unsigned index);
/* How long its copy engines and kernels have worked for all pipelines: us, for each of enum overlap_engine. */
double *engine_served(const struct engine *engine, unsigned index);
/* The machine's processors, as the server saw them at its last tick. */
struct processors *engine_processors(struct engine *engine);
/* What all devices together have of the host's and of their own memory. */
void engine_usage(const struct engine *engine, struct gpu_usage *usage);
struct device *engine_main_device(const struct engine *engine); /* gpu.device, or else the first */
/* How many were opened, and the number of each. */
unsigned engine_devices(const struct engine *engine);
/* Producers that are connected to sessions on it. */
unsigned engine_producers(const struct engine *engine, unsigned index);
unsigned engine_device_number(const struct engine *engine, unsigned index);
/* The number of one that has failed, and is of no more use to this process; NO_DEVICE: none has. */
unsigned engine_lost(const struct engine *engine);

/* -- devices that are left out -- */

unsigned engine_absents(const struct engine *engine);
const struct engine_absent *engine_absent(const struct engine *engine, unsigned index);
/* The one of that number, or NULL. */
const struct engine_absent *engine_find_absent(const struct engine *engine, unsigned number);
/* Whether every pipeline of the configuration has another device; else `pipeline` (or NULL) is the name of one that has none.
 */
bool engine_can_spare(const struct engine *engine, const struct config *config, unsigned number, const char **pipeline);
/* From the next process on that device is left out, or comes back. */
void engine_leave_out(struct engine *engine, unsigned number, enum engine_absence why, const char *text);
/* The same of one that is broken, which the log says. */
void engine_leave_broken_out(struct engine *engine, unsigned number, const char *reason, const char *remedy);
void engine_take_back(struct engine *engine, unsigned number);

/* -- sessions on devices -- */

struct engine_place {    /* of one session */
  struct device *device; /* its own, or several that are joined */
  unsigned count;        /* of those */
  struct flow_device on[GPU_MAX_SLOTS];
};

/* A bit for each of them. */
uint64_t engine_place_bits(const struct engine_place *place);

/* Places sessions of a pipeline, each with `bytes` a frame and `needed` bytes of device memory, on the devices that it names:
 * each on one of them, or where the pipeline spreads frames, on as many as it has slots. Set-up thread; they are taken off
 * again one by one. */
bool engine_place_sessions(struct engine *engine, const struct config_pipeline *config, struct engine_place *places,
                           unsigned count, size_t bytes, size_t needed, struct failure *failure);
void engine_take_off(struct engine *engine, const struct engine_place *place, size_t bytes);
unsigned engine_lanes(const struct engine *engine);

/* Chooses the lane for a session of that many bytes a frame, and takes it off again. */
struct lane *engine_place(struct engine *engine, size_t bytes);
/* The same for a sink that shall not be on its session's lane, of several. */
struct lane *engine_place_apart(struct engine *engine, const struct lane *from, size_t bytes);
void engine_unplace(struct engine *engine, const struct lane *lane, size_t bytes);

/* Of the frames that may have made a device fail in the process before. */
struct retry *engine_retry(struct engine *engine);

/* Makes every lane stand still: see lane_is_parked(). False: one still runs. */
bool engine_park(struct engine *engine, const struct lane_patience *patience);
/* While they stand: runs the messages that wait for them; true if there were any. */
bool engine_run_messages(struct engine *engine);
void engine_unpark(struct engine *engine);

/* Has a worker stand by for each device. Blocks: for set-up threads. False: one has none, for that reason. */
bool engine_stand_by(struct engine *engine, enum config_standby standby, struct gpu_error *error);
/* When the lane that has gone longest without a finished turn last finished one (CLOCK_MONOTONIC ns). */
int64_t engine_beat(const struct engine *engine);

/* An error of the GPU as a failure of the daemon. Returns false. */
bool engine_failure(struct failure *failure, const struct gpu_error *error);

#endif
