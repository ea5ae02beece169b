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
#include "daemon/frame/retry.h"
#include "daemon/measure/overlap.h"
#include "daemon/state/codec.h"
#include "gpu/gpu.h"

struct engine;

/* Opens the devices that the configuration names, then starts the lanes. `codec` (or NULL) has what a process before this one
 * measured about them. Blocks. NULL on error. */
struct engine *engine_open(const struct config *config, struct codec *codec, struct failure *failure);
/* Writes what was measured about the devices to the codec. */
void engine_put(const struct engine *engine, struct codec *codec);
/* Ends the lanes and closes the devices; nothing may be left on them. NULL is fine; returns NULL. */
struct engine *engine_close(struct engine *engine);

/* NULL if it was not opened at the start. */
struct gpu_device *engine_device(const struct engine *engine, unsigned index);
/* Where the lanes note the time of that device's last completion (CLOCK_MONOTONIC ns); NULL if it was not opened. */
_Atomic int64_t *engine_completion(const struct engine *engine, unsigned index);
/* How long its copy engines and kernels have worked for all pipelines: us, for each of enum overlap_engine. */
double *engine_served(const struct engine *engine, unsigned index);
/* The machine's processors, as the server saw them at its last tick. */
struct processors *engine_processors(struct engine *engine);
/* What all devices together have of the host's and of their own memory. */
void engine_usage(const struct engine *engine, struct gpu_usage *usage);
struct gpu_device *engine_main_device(const struct engine *engine); /* gpu.device */
/* How many were opened, and the number of each. */
unsigned engine_devices(const struct engine *engine);
/* Whether one of them has failed, and is of no more use to this process. */
bool engine_has_lost(const struct engine *engine);
unsigned engine_device_number(const struct engine *engine, unsigned index);
unsigned engine_lanes(const struct engine *engine);

/* Chooses the lane for a session of that many bytes a frame, and takes it off again. */
struct lane *engine_place(struct engine *engine, size_t bytes);
/* The same for a sink that shall not be on its session's lane, of several. */
struct lane *engine_place_apart(struct engine *engine, const struct lane *from, size_t bytes);
void engine_unplace(struct engine *engine, const struct lane *lane, size_t bytes);

/* The retry of the frames that were on that device when it failed in the process before; NULL if the device was not opened. */
struct retry *engine_trial(struct engine *engine, unsigned index);

/* Makes every lane stand still: see lane_is_parked(). False: one still runs. */
bool engine_park(struct engine *engine, const struct lane_patience *patience);
/* While they stand: runs the messages that wait for them; true if there were any. */
bool engine_run_messages(struct engine *engine);
void engine_unpark(struct engine *engine);

/* Sets every device's clock anew. May wait for a device: for a worker thread. False if one is dead. */
bool engine_anchor(struct engine *engine, struct gpu_error *error);
/* When the lane that has gone longest without a finished turn last finished one (CLOCK_MONOTONIC ns). */
int64_t engine_beat(const struct engine *engine);

/* -- placement: a new session, or a sink of its own lane, goes to the least loaded lane, counted in bytes a frame -- */

/* Index of the smallest load, the first of equals. `count` is at least 1. */
unsigned placement_choose(const size_t *loads, unsigned count);
/* The same among all but one; `count` is at least 2. */
unsigned placement_choose_other(const size_t *loads, unsigned count, unsigned than);
/* Whether a lossless sink for results of that size is better off on another lane than its session. */
bool placement_parts(size_t result_bytes, unsigned lanes);
/* How many lanes `auto` means: one for each processor but one, which the control loop keeps; 1 to 4, and 2 as soon as
 * there are two processors, so that large results can be written where nothing is read. */
unsigned placement_lanes(long processors);

/* An error of the GPU as a failure of the daemon. Returns false. */
bool engine_failure(struct failure *failure, const struct gpu_error *error);

#endif
