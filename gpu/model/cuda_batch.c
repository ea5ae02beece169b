/*
 * Batches on a GPU: frames are gathered by one kernel, go through the graph of an instance, and are scattered.
 *
 * An instance has a graph for each size that is a power of two, and one for the most; a batch takes the smallest that holds it,
 * whose other rows are what was there before and nobody reads. The host waits for nothing but the end of a batch, in the
 * instance's own thread: the batch waits on the device for its frames, and they for it.
 *
 * A batch that breaks the device is the device's end, as a frame is: in the next process its frames run again, one at a time.
 */
#include "gpu/model/batches.h"
#include "gpu/model/cuda_instance.h"
#include "gpu/model/cuda_rows.h"
#include "gpu/model/cuda_trial.h"
#include "gpu/model/stage.h"

#include <errno.h>
#include <stdlib.h>

enum { SIZES = 7 }; /* 1 to BATCHER_MOST */

_Static_assert((int)CUDA_MOST_ROWS == (int)BATCHER_MOST && 1 << (SIZES - 1) == BATCHER_MOST, "every batch has a graph");

struct cuda_batches {
  struct gpu_device *device;
  struct model *model;
  cudaEvent_t done;
  unsigned count;
  struct cuda_instance *sizes[SIZES]; /* from the smallest */
};

/* -- opening and closing ------------------------------------------------------------------------------------------------ */

static void *close_instance(void *argument) {
  struct cuda_batches *instance = argument;
  struct gpu_error error;
  for (unsigned i = 0; i < instance->count; i++) {
    cuda_instance_close(instance->sizes[i]);
  }
  if (instance->done && !gpu_device_is_dead(instance->device, NULL) && cuda_enter(instance->device, &error)) {
    (void)CUDA_CALL(instance->device, &error, cudaEventDestroy, instance->done);
  }
  free(instance);
  return NULL;
}

/* Fills the sizes of the openings, from the smallest; gives how many there are. */
static unsigned fill_sizes(const struct model *model, const struct cuda_opening *common, struct cuda_opening openings[SIZES]) {
  const unsigned most = model_rows(model);
  unsigned count = 0;
  for (unsigned rows = model->is_padded ? most : 1; rows < most; rows *= 2) {
    openings[count] = *common;
    openings[count++].rows = rows;
  }
  openings[count] = *common;
  openings[count++].rows = most;
  return count;
}

static bool open_sizes(struct cuda_batches *instance, unsigned number, struct gpu_error *error) {
  struct cuda_opening openings[SIZES];
  struct model_bytes bytes;
  struct onnx_file file;
  if (!cuda_instance_read_file(instance->model, &bytes, &file, error)) {
    return false;
  }
  const struct model_choice choice = cuda_trial_choose(instance->device, instance->model, &bytes, &file);
  const struct cuda_opening common = {.device = instance->device,
                                      .model = instance->model,
                                      .bytes = &bytes,
                                      .file = &file,
                                      .choice = &choice,
                                      .chosen = MODEL_ALL};
  unsigned count = fill_sizes(instance->model, &common, openings);
  bool good = cuda_instance_open(openings, count, error);
  for (; good && instance->count < count; instance->count++) {
    instance->sizes[instance->count] = openings[instance->count].instance;
    instance->sizes[instance->count]->number = number;
  }
  model_bytes_free(&bytes);
  return good;
}

static void *open_instance(struct gpu_device *device, struct model *model, unsigned number, struct gpu_error *error) {
  struct cuda_batches *instance = calloc(1, sizeof *instance);
  if (!instance) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for the batches of a model");
    return NULL;
  }
  instance->device = device;
  instance->model = model;
  if (!cuda_enter(device, error) ||
      !CUDA_CALL(device, error, cudaEventCreateWithFlags, &instance->done, cudaEventDisableTiming | cudaEventBlockingSync) ||
      !open_sizes(instance, number, error)) {
    return close_instance(instance);
  }
  return instance;
}

/* -- a batch on its stream ---------------------------------------------------------------------------------------------- */

static const struct cuda_instance *find_size(const struct cuda_batches *instance, unsigned count) {
  unsigned i = 0;
  while (i + 1 < instance->count && instance->sizes[i]->rows < count) {
    i++;
  }
  return instance->sizes[i];
}

/* Events around the batch, of frames that have times. */
static bool mark(const struct cuda_instance *size, const struct batch *batch, bool ended, struct gpu_error *error) {
  for (unsigned i = 0; i < batch->count; i++) {
    const struct stage_run *run = batch->places[i]->call->run;
    cudaEvent_t event = ended ? run->ended : run->began;
    if (event && !CUDA_CALL(size->device, error, cudaEventRecord, event, size->stream)) {
      return false;
    }
  }
  return true;
}

static bool await_frames(const struct cuda_instance *size, const struct batch *batch, struct gpu_error *error) {
  for (unsigned i = 0; i < batch->count; i++) {
    if (!CUDA_CALL(size->device, error, cudaStreamWaitEvent, size->stream, batch->places[i]->call->ready, 0)) {
      return false;
    }
  }
  return true;
}

static bool copy_rows(const struct cuda_instance *size, const struct cuda_rows *rows, struct gpu_error *error) {
  return rows->count == 0 ||
         cuda_check(size->device, (cudaError_t)cuda_copy_rows(rows, size->stream), "copying the frames of a batch", error);
}

static bool gather(const struct cuda_instance *size, const struct batch *batch, struct gpu_error *error) {
  struct cuda_rows rows = {.count = batch->count, .bytes = size->model->input.bytes};
  for (unsigned i = 0; i < batch->count; i++) {
    rows.from[i] = batch->places[i]->call->input;
    rows.to[i] = size->input + i * rows.bytes;
  }
  return copy_rows(size, &rows, error);
}

/* One output goes to those frames whose stage gives it. */
static bool scatter_output(const struct cuda_instance *size, const struct batch *batch, unsigned index,
                           struct gpu_error *error) {
  const struct part *part = &size->model->parts.parts[index];
  struct cuda_rows rows = {.bytes = part->bytes};
  for (unsigned i = 0; i < batch->count; i++) {
    const int chosen = model_stage_chosen(batch->places[i]->plan);
    if (chosen == MODEL_ALL || chosen == (int)index) {
      rows.from[rows.count] = cuda_instance_output(size, index) + i * part->bytes;
      rows.to[rows.count++] = (unsigned char *)batch->places[i]->call->output + (chosen == MODEL_ALL ? part->offset : 0);
    }
  }
  return copy_rows(size, &rows, error);
}

static bool scatter(const struct cuda_instance *size, const struct batch *batch, struct gpu_error *error) {
  struct cuda_rows tables = {.bytes = sizeof size->model->parts};
  for (unsigned i = 0; i < batch->count; i++) {
    if (model_stage_chosen(batch->places[i]->plan) == MODEL_ALL) {
      tables.from[tables.count] = size->outputs;
      tables.to[tables.count++] = batch->places[i]->call->output;
    }
  }
  bool good = copy_rows(size, &tables, error);
  for (unsigned i = 0; i < size->model->output_count && good; i++) {
    good = scatter_output(size, batch, i, error);
  }
  return good;
}

/* What is left of the frames waits for the batch. */
static bool release_frames(const struct cuda_batches *instance, const struct batch *batch, struct gpu_error *error) {
  for (unsigned i = 0; i < batch->count; i++) {
    const struct stage_call *call = batch->places[i]->call;
    if (!CUDA_CALL(instance->device, error, cudaStreamWaitEvent, call->stream, instance->done, 0)) {
      return false;
    }
  }
  return true;
}

static bool launch(const struct cuda_batches *instance, const struct batch *batch, struct gpu_error *error) {
  const struct cuda_instance *size = find_size(instance, batch->count);
  return await_frames(size, batch, error) && mark(size, batch, false, error) && gather(size, batch, error) &&
         CUDA_CALL(size->device, error, cudaGraphLaunch, size->capture.exec, size->stream) && scatter(size, batch, error) &&
         mark(size, batch, true, error) && CUDA_CALL(size->device, error, cudaEventRecord, instance->done, size->stream) &&
         release_frames(instance, batch, error);
}

/* Frames of a dead device are lost, and nothing of them may be touched. */
static void start(void *argument, struct batch *batch) {
  const struct cuda_batches *instance = argument;
  struct gpu_error error;
  if (gpu_device_is_dead(instance->device, NULL)) {
    return;
  }
  if (!cuda_enter(instance->device, &error) || !launch(instance, batch, &error)) {
    gpu_device_die(instance->device, &error);
    return;
  }
  batch_resume(batch);
}

static void run(void *argument, struct batch *batch) {
  (void)batch;
  const struct cuda_batches *instance = argument;
  struct gpu_error error;
  if (!gpu_device_is_dead(instance->device, NULL) &&
      !CUDA_CALL(instance->device, &error, cudaEventSynchronize, instance->done)) {
    gpu_device_die(instance->device, &error);
  }
}

const struct batch_engine batch_cuda = {.open = open_instance, .close = close_instance, .start = start, .run = run};
