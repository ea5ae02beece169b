/*
 * The engine that pipelines run on: the devices and the lanes. Opened before the first pipeline, closed after the last. Belongs
 * to the control loop, except where it says otherwise.
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

enum { ENGINE_NAME = 128, ENGINE_TEXT = 320, ENGINE_MOST_DEVICES = DEVICE_MOST };

/* A device that is left out: it is not opened, and its sessions are on other devices. */
enum engine_absence {
  ENGINE_DRAINED, /* by a command */
  ENGINE_FAILED   /* it is permanently broken */
};
struct engine_absent {
  unsigned number;
  unsigned why;  /* enum engine_absence */
  int64_t since; /* CLOCK_MONOTONIC ns */
  char name[ENGINE_NAME], text[ENGINE_TEXT];
};
extern const char *const engine_absence_names[];

/* Opens the configured devices, except those left out, then starts the lanes. `left`: address of the engine in the previous
 * process with its knowledge of devices; or NULL. A device that cannot be opened is left out if every pipeline has another one.
 * Blocks. NULL on error. */
struct engine *engine_open(const struct config *config, const struct engine *left, bool hurries, struct failure *failure);
/* Everything runs: devices may take their time again. */
void engine_end_hurry(struct engine *engine);
/* Before an orderly end: keeps the devices' calibrations for the next process, and their workers if it `follows` in place. */
void engine_keep(struct engine *engine, bool follows);
/* Takes over the workers that the engine in the previous process kept; `left` is its address. Call it before any other worker
 * is started. */
void engine_adopt_workers(const struct engine *left);
/* Copies the list of devices that are left out into `left`, the previous process's engine, because the next image takes over
 * from that. */
bool engine_keep_absents(const struct engine *engine, const struct engine *left);
/* Ends the lanes and closes the devices; both must be unused. Accepts NULL; returns NULL. */
struct engine *engine_close(struct engine *engine);

/* NULL if it was not opened at the start. */
struct device *engine_device(const struct engine *engine, unsigned index);
/* The lanes store here the time of the device's last completion (CLOCK_MONOTONIC ns). NULL if it was not opened. */
_Atomic int64_t *engine_completion(const struct engine *engine, unsigned index);
/* Warm-up time in ns of the slowest pipeline's frame on that device, for the lanes; 0: unknown. */
_Atomic int64_t *engine_slowest(const struct engine *engine, unsigned index);
/* us that its copy engines and kernels worked for all pipelines, by enum overlap_engine. */
double *engine_served(const struct engine *engine, unsigned index);
/* The machine's processors, updated by the server's tick. */
struct processors *engine_processors(struct engine *engine);
/* Host memory and device memory that all devices use together. */
void engine_usage(const struct engine *engine, struct gpu_usage *usage);
struct device *engine_main_device(const struct engine *engine); /* gpu.device, or else the first */
/* Number of opened devices, and the number of each. */
unsigned engine_devices(const struct engine *engine);
/* Producers connected to sessions on that device. */
unsigned engine_producers(const struct engine *engine, unsigned index);
unsigned engine_device_number(const struct engine *engine, unsigned index);
/* Number of a device that has failed and cannot be used by this process; NO_DEVICE: none. */
unsigned engine_lost(const struct engine *engine);

/* -- devices that are left out --- */

unsigned engine_absents(const struct engine *engine);
const struct engine_absent *engine_absent(const struct engine *engine, unsigned index);
/* The absent device with that number, or NULL. */
const struct engine_absent *engine_find_absent(const struct engine *engine, unsigned number);
/* True if every pipeline has another device. Otherwise `pipeline` (or NULL) gets the name of one that has none. */
bool engine_can_spare(const struct engine *engine, const struct config *config, unsigned number, const char **pipeline);
/* Leaves the device out, or brings it back, for the next process. */
void engine_leave_out(struct engine *engine, unsigned number, enum engine_absence why, const char *text);
/* Leaves out a broken device, and logs that. */
void engine_leave_broken_out(struct engine *engine, unsigned number, const char *reason, const char *remedy);
void engine_take_back(struct engine *engine, unsigned number);

/* -- sessions on devices --- */

struct engine_placement { /* the devices of one session */
  struct device *device;  /* its only device, or several joined */
  unsigned count;         /* number of devices */
  struct flow_device on[GPU_MAX_SLOTS];
};

/* The devices as bits. */
uint64_t engine_placement_bits(const struct engine_placement *placement);

/* Assigns sessions of a pipeline to its configured devices, with `bytes` per frame and `needed` bytes of device memory each.
 * A session gets one device, or as many as it has slots if the pipeline spreads frames. For a set-up thread; released one by
 * one. */
bool engine_assign_devices(struct engine *engine, const struct config_pipeline *config, struct engine_placement *placements,
                           unsigned count, size_t bytes, size_t needed, struct failure *failure);
void engine_release_devices(struct engine *engine, const struct engine_placement *placement, size_t bytes);
unsigned engine_lanes(const struct engine *engine);

/* Chooses the lane of a session with that many bytes per frame; engine_release_lane() releases it. */
struct lane *engine_choose_lane(struct engine *engine, size_t bytes);
/* Chooses the lane of a sink that must not run on its session's lane. */
struct lane *engine_choose_other_lane(struct engine *engine, const struct lane *from, size_t bytes);
void engine_release_lane(struct engine *engine, const struct lane *lane, size_t bytes);

/* State of frames that are suspected to have made a device fail. */
struct retry *engine_retry(struct engine *engine);

/* Parks every lane: see lane_is_parked(). Returns false if one still runs. */
bool engine_park(struct engine *engine, const struct lane_patience *patience);
/* While lanes are parked: runs their messages. Returns true if there were any. */
bool engine_run_messages(struct engine *engine);
void engine_unpark(struct engine *engine);

/* Starts a standby worker for each device. Blocks: for a set-up thread. Returns false if one device has none; `error` has the
 * reason. */
bool engine_stand_by(struct engine *engine, enum config_standby standby, struct gpu_error *error);
/* The worker of that device executes another program than is installed, and may be replaced now. */
bool engine_may_renew(const struct engine *engine, unsigned index, enum config_standby standby);
/* CLOCK_MONOTONIC ns of the oldest last finished turn of all lanes. */
int64_t engine_beat(const struct engine *engine);

/* Converts an error of the GPU. Returns false. */
bool engine_failure(struct failure *failure, const struct gpu_error *error);

#endif
