/*
 * The room device/: a device as the daemon sees it. What computes frames is a worker, a process of its own (process.h); the
 * daemon has its memory registered there, has chains of stages prepared there, and passes frames through shared pages
 * (gpu/record/pages.h). No code of a stage, of CUDA or of a model runs in the daemon.
 *
 * What always holds:
 *   - at most one frame is in a slot of a program, between device_submit() and the answer DEVICE_DONE;
 *   - calls marked [lane] never block and never allocate, and make a system call only to wake a worker that sleeps; all others
 *     are for set-up threads;
 *   - a device that is lost once stays lost: its worker has ended or is about to.
 */
#ifndef FRAMED_DEVICE_DEVICE_H
#define FRAMED_DEVICE_DEVICE_H

#include <sys/types.h>

#include "daemon/base/failure.h"
#include "daemon/base/lane.h"
#include "daemon/device/process.h"
#include "gpu/gpu.h"
#include "gpu/record/messages.h"

enum { DEVICE_MOST = 64 };

struct device;
struct device_chain;
struct device_program;
struct device_model;

/* -- devices -------------------------------------------------------------------------------------------------------- */

struct device_setup {
  enum gpu_backend_choice choice;      /* AUTO takes CUDA where a device node exists, and the CPU only where none does */
  unsigned index, workers;             /* workers: the size of the CPU pool; 0: one a processor */
  unsigned slots;                      /* of all programs that are to be on it; 0: not known */
  bool hurries;                        /* a service stands still meanwhile: nothing is weighed that may be left as it is */
  const struct gpu_calibration *known; /* what another process measured; NULL: measure */
  struct worker_realtime realtime;     /* of the threads that compute */
};

/* Starts a worker with that device, or gives the device to the one that has judged the configuration. NULL on error. */
struct device *device_open(const struct device_setup *setup, struct gpu_error *error);
/* Programs must be gone. NULL is fine; returns NULL. */
struct device *device_close(struct device *device);
/* Several as one: slot i of a program is on the device i modulo `count`. They outlive what is joined. NULL: no memory. */
struct device *device_join(struct device *const *devices, unsigned count, struct gpu_error *error);

/* How many there are, the first of which has the number 0; whether one could be opened; and what its driver lacks. */
unsigned device_count(enum gpu_backend_choice choice, unsigned cpus);
bool device_usable(enum gpu_backend_choice choice, unsigned index, struct gpu_error *error);
void device_find_lacks(enum gpu_backend_choice choice, struct gpu_lacks *lacks);

const char *device_backend_name(const struct device *device); /* "cuda" or "cpu" */
const char *device_name(const struct device *device);
const char *device_address(const struct device *device); /* of PCI; "" for the CPU backend */
int device_node(const struct device *device, unsigned slot);
unsigned device_kernels_at_once(const struct device *device);
void device_calibration(const struct device *device, struct gpu_calibration *calibration);
/* As the worker wrote it last. Any thread; never blocks. */
bool device_memory(const struct device *device, size_t *available, size_t *total);
void device_usage(const struct device *device, struct gpu_usage *usage);

/* Has the worker ask the device every `period` ns whether it answers, and says when it last did (CLOCK_MONOTONIC ns; 0: not
 * yet) and how long that took. Never blocks. */
struct device_canary {
  int64_t answered, took;
};
struct device_canary device_canary(struct device *device, int64_t period);

/* NVML_FIGURES of it, not older than some seconds; NULL: nothing is known, or not yet. [control loop] */
const double *device_figures(struct device *device);
/* Adds to a text what the driver knows to be wrong with the device at that address, if it knows anything. May block. */
void device_add_trouble(const char *address, char *text, size_t size);

/* Registers memory with the device; `fd` is of all of it. */
bool device_pin(struct device *device, int fd, void *base, size_t bytes, struct gpu_error *error);
void device_unpin(struct device *device, void *base, size_t bytes);

/* Ends its worker, for a reason that only the caller can see. Any thread; never blocks. */
void device_abandon(struct device *device, const struct gpu_error *reason);
/* [lane] The same for the device that has the slot's frame. */
void device_abandon_slot(struct device_program *program, unsigned slot, const struct gpu_error *reason);
/* Who is told when the worker is lost, on another thread and perhaps more than once; NULL: nobody, from the return on. */
void device_on_lost(struct device *device, void (*lost)(void *context), void *context);
bool device_is_lost(const struct device *device);
/* The same the other way round, with the reason. */
bool device_lives(const struct device *device, struct gpu_error *cause);
/* The start is over: see `hurries`. */
void device_calm(struct device *device);
/* A worker that is to take the place of the device's own: WARM has prepared what runs there, with its models; BARE has opened
 * the device only, which is what WARM becomes where the device's memory is short. AUTO: WARM on a GPU, OFF on the CPU. */
enum device_standby { DEVICE_STANDBY_AUTO, DEVICE_STANDBY_WARM, DEVICE_STANDBY_BARE, DEVICE_STANDBY_OFF };
/* Brings it about, and again after each change. Set-up threads; blocks. False: there is none, or not all of it, and it is tried
 * again later. */
bool device_stand_by(struct device *device, enum device_standby how, struct gpu_error *error);
/* The process that stands by and how far it is, WARM or BARE; 0: there is none. Never blocks. */
pid_t device_standing(const struct device *device, enum device_standby *how);
/* A replacement would find all that is to stand by, or nothing is to. */
bool device_can_switch(struct device *device, enum device_standby how);
/* Has another worker take the place of one that is lost, with the same memory and programs, once that one has ended. Frames
 * that were there are gone; the callers of all programs get a turn. False: the device stays lost. */
bool device_replace(struct device *device, struct gpu_error *error);
/* The process that serves the device; 0: it is lost, or being replaced. Never blocks. */
pid_t device_worker(struct device *device);
/* The record from which the next image of the daemon goes on with a device's workers. */
struct device_left {
  struct process_left serves, stands_by;
};
/* Leaves them to it: they outlive device_end_all(). Their descriptors must stay open. */
void device_leave(struct device *device, struct device_left *left);
void device_stay(void); /* it did not follow */
/* Takes over one of them, for a device that will be opened. Its descriptors are `control` and `counts` now. */
void device_adopt(unsigned index, bool stands_by, const struct process_left *left, int control, int counts);
void device_adopt_end(void); /* ends those for devices that were not opened */
/* Whether the device has the worker of the image before. */
bool device_is_adopted(struct device *device);
/* Whether the worker executes another program than a new one would. */
bool device_is_outdated(struct device *device);
/* Ends all workers that are not left to another image, and has seen their end when it returns. */
void device_end_all(void);
/* An error as a failure of the daemon, behind what it was about (NULL: that is all): one of the machine may pass. Returns
 * false. */
__attribute__((format(printf, 3, 4))) bool device_failure(struct failure *failure, const struct gpu_error *error,
                                                          const char *about, ...);

/* -- models: as a worker has opened them ---------------------------------------------------------------------------- */

struct device_model *device_model_open(const struct model_settings *settings, struct gpu_error *error);
struct device_model *device_model_free(struct device_model *model); /* NULL is fine; returns NULL */
/* The worker that judged it need not have it open any longer. */
void device_model_settle(struct device_model *model);
/* Whether both are of the same bytes, and are asked for in the same way: a worker that runs both has one. */
bool device_model_same(const struct device_model *one, const struct device_model *other);
const struct model_record *device_model_record(const struct device_model *model);
const struct model_settings *device_model_settings(const struct device_model *model);
unsigned device_model_files(const struct device_model *model, struct kept_file *list, unsigned count, unsigned most);
int device_model_find_output(const struct device_model *model, const char *name); /* MODEL_ALL: there is none */

/* -- chains: formats negotiated by a worker ------------------------------------------------------------------------- */

/* On the device, or where that is NULL by a worker without one, which is started for it. The resource of a request is a struct
 * device_model. error->stage names the stage that does not fit. NULL on error. */
struct device_chain *device_chain_new(struct device *device, enum gpu_backend_choice choice, const struct frame_format *input,
                                      const struct gpu_stage_request *requests, unsigned count, struct gpu_error *error);
struct device_chain *device_chain_free(struct device_chain *chain); /* NULL is fine; returns NULL */
const struct chain_record *device_chain_record(const struct device_chain *chain);
const char *device_chain_stage(const struct device_chain *chain, unsigned index); /* its name; NULL behind the last */
void device_chain_count_users(struct device_chain *chain, unsigned users);
unsigned device_chain_files(const struct device_chain *chain, struct kept_file *list, unsigned count, unsigned most);
size_t device_chain_bytes(const struct device_chain *chain, unsigned slots);
/* What the last model of the chain has counted on all devices. Any thread; never blocks. */
void device_chain_counts(const struct device_chain *chain, uint64_t served[WORKER_INSTANCES], uint64_t batches[WORKER_BATCHES]);
/* Slots of all pipelines that may run that model. */
unsigned device_chain_users(const struct device_chain *chain);
/* The worker that has judged configurations ends, unless it has a device by now. */
void device_judge_end(void);

/* -- programs ------------------------------------------------------------------------------------------------------- */

/* Who runs frames: the runner gets a turn on its lane when some are done. NULL: nobody, and frames are asked for. */
struct device_caller {
  struct lane *lane;
  struct runner *runner;
};

/* Makes the program, whose slots lie in memory that is registered, and warms it up if `warms_up`. `options` without what tells
 * of frames. The chain must outlive the program. NULL on error. */
struct device_program *device_program_new(struct device *device, struct device_chain *chain, const struct gpu_buffers *slots,
                                          unsigned count, const struct gpu_options *options, bool warms_up,
                                          const struct device_caller *caller, struct gpu_error *error);
/* Frames that still run there end first, unless the device is lost. NULL is fine; returns NULL. */
struct device_program *device_program_free(struct device_program *program);
/* Should it be made again by another worker: a bit for each slot through which no warm-up frame may go then. While lanes stand
 * still. */
void device_program_spare(struct device_program *program, unsigned slots);
/* After the warm-up: what it decided and measured. */
const struct worker_ready *device_program_ready(const struct device_program *program);

/* [lane] False: the device is lost. */
bool device_submit(struct device_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error);
/* [lane] Whether frames can go to all devices of the program. */
bool device_serves(const struct device_program *program);
/* [lane] What became of the slot's frame. `error` (may be NULL) says why the device is lost. */
enum gpu_progress device_ask(struct device_program *program, unsigned slot, struct gpu_error *error);
/* [lane] Before it sleeps: the lane is woken once that frame is done. True: it is done by now. */
bool device_await(struct device_program *program, unsigned slot);
/* [lane] Once it is DONE and before the next submit: why a stage could not compute it, or NULL; whether it was late, and left
 * out; its times, unless it has none. */
const char *device_refusal(struct device_program *program, unsigned slot);
bool device_late(struct device_program *program, unsigned slot);
bool device_times(struct device_program *program, unsigned slot, struct gpu_times *times);

#endif
