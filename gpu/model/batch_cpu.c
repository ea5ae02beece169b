/*
 * Batches on the CPU: frames are gathered in memory of the instance, go through ONNX Runtime in one run, and are scattered.
 *
 * Where a run fails, the frames of the batch run again one at a time: what a model cannot compute costs nobody else anything.
 */
#include "gpu/model/batches.h"
#include "gpu/model/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cpu_instance {
  struct gpu_device *device;
  struct model *model;
  unsigned char *input;
  void *outputs[MODEL_MOST_OUTPUTS];
};

static void *close_instance(void *argument) {
  struct cpu_instance *instance = argument;
  for (unsigned i = 0; i < MODEL_MOST_OUTPUTS; i++) {
    free(instance->outputs[i]);
  }
  free(instance->input);
  free(instance);
  return NULL;
}

/* A model that takes any number of frames computes one where it lies. */
static bool needs_memory(const struct model *model) { return model->batch.most > 1; }

static void *open_instance(struct gpu_device *device, struct model *model, unsigned number, struct gpu_error *error) {
  (void)number;
  struct cpu_instance *instance = calloc(1, sizeof *instance);
  bool good = instance != NULL;
  if (good && needs_memory(model)) {
    instance->input = calloc(model->batch.most, model->input.bytes);
    good = instance->input != NULL;
    for (unsigned i = 0; i < model->output_count && good; i++) {
      instance->outputs[i] = calloc(model->batch.most, model->outputs[i].bytes);
      good = instance->outputs[i] != NULL;
    }
  }
  if (!good) {
    gpu_error_set(error, ENOMEM, "set batch.most lower", "no memory for batches of %u frames", model->batch.most);
    return instance ? close_instance(instance) : NULL;
  }
  instance->device = device;
  instance->model = model;
  return instance;
}

static void gather(const struct cpu_instance *instance, const struct batch *batch, unsigned from, unsigned to) {
  const size_t bytes = instance->model->input.bytes;
  for (unsigned i = from; i < to; i++) {
    memcpy(instance->input + (i - from) * bytes, batch->places[i]->call->input, bytes);
  }
}

static void scatter_one(const struct cpu_instance *instance, unsigned row, const struct batch_place *place) {
  const struct model *model = instance->model;
  const int chosen = model_stage_chosen(place->plan);
  unsigned char *to = place->call->output;
  if (chosen == MODEL_ALL) {
    memcpy(to, &model->parts, sizeof model->parts);
  }
  for (unsigned i = 0; i < model->output_count; i++) {
    const size_t bytes = model->outputs[i].bytes;
    const unsigned char *from = (unsigned char *)instance->outputs[i] + row * bytes;
    if (chosen == MODEL_ALL || chosen == (int)i) {
      memcpy(to + (chosen == MODEL_ALL ? model->parts.parts[i].offset : 0), from, bytes);
    }
  }
}

static bool run_rows(const struct cpu_instance *instance, const struct batch *batch, unsigned from, unsigned to,
                     struct gpu_error *error) {
  gather(instance, batch, from, to);
  if (!model_run_batch(instance->model, to - from, instance->input, instance->outputs, error)) {
    return false;
  }
  for (unsigned i = from; i < to; i++) {
    scatter_one(instance, i - from, batch->places[i]);
  }
  return true;
}

static bool run_one(const struct cpu_instance *instance, const struct batch *batch, unsigned index, struct gpu_error *error) {
  const struct batch_place *place = batch->places[index];
  return instance->model->is_padded
             ? run_rows(instance, batch, index, index + 1, error)
             : model_run(instance->model, place->call->input, place->call->output, model_stage_chosen(place->plan), error);
}

static void compute(const struct cpu_instance *instance, struct batch *batch) {
  struct gpu_error error;
  if (batch->count > 1 && run_rows(instance, batch, 0, batch->count, &error)) {
    return;
  }
  for (unsigned i = 0; i < batch->count; i++) {
    if (!run_one(instance, batch, i, &error)) {
      snprintf(batch->places[i]->call->problem, STAGE_TEXT, "%.390s", error.text);
    }
  }
}

/* Frames of a device that is dead are lost, whatever is computed of them. */
static void run(void *argument, struct batch *batch) {
  const struct cpu_instance *instance = argument;
  int64_t began = gpu_now();
  if (!gpu_device_is_dead(instance->device, NULL)) {
    compute(instance, batch);
  }
  int64_t ended = gpu_now();
  for (unsigned i = 0; i < batch->count; i++) {
    batch->places[i]->call->run->from = began;
    batch->places[i]->call->run->until = ended;
  }
  batch_resume(batch);
}

const struct batch_engine batch_cpu = {.open = open_instance, .close = close_instance, .run = run};
