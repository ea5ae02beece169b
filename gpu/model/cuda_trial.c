/* Weighs ways to open a model; see cuda_trial.h. */
#include "gpu/model/cuda_trial.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UPS = 3, ROUNDS = 3, FRAMES = 8 };
/* A model that is replayed this much slower is as fast: what another search finds differs from time to time. */
#define EQUAL 1.02
/* Of the largest number, that two ways of computing may differ by. */
#define MOST_DIFFERENCE 0.02

/* -- the key -------------------------------------------------------------------------------------------------------------- */

static size_t cudnn_version(void) {
  void *library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
  size_t (*version)(void) = NULL;
  if (library) {
    *(void **)&version = dlsym(library, "cudnnGetVersion");
  }
  return version ? version() : 0;
}

static void write_key(const struct gpu_device *device, const struct model *model, char key[CHOICE_KEY]) {
  struct gpu_error error;
  int driver = 0, runtime = 0;
  (void)cuda_check((struct gpu_device *)(uintptr_t)device, cudaDriverGetVersion(&driver), "cudaDriverGetVersion", &error);
  (void)cuda_check((struct gpu_device *)(uintptr_t)device, cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion", &error);
  int length = snprintf(key, CHOICE_KEY, "framed 1\nmodel %016llx\nprecision %s\nshape", (unsigned long long)model->hash,
                        model->precision == MODEL_TF32 ? "tf32" : "float32");
  for (unsigned i = 0; i < model->input.rank; i++) {
    length += snprintf(key + length, CHOICE_KEY - (size_t)length, " %lld", (long long)model->input.shape[i]);
  }
  if (model_rows(model) > 1) {
    length += snprintf(key + length, CHOICE_KEY - (size_t)length, " rows %u", model_rows(model));
  }
  snprintf(key + length, CHOICE_KEY - (size_t)length, "\ndevice %s\ncuda %d %d\ncudnn %zu\nonnxruntime %s\n", device->name,
           driver, runtime, cudnn_version(), model->runtime->version);
}

/* -- trials ---------------------------------------------------------------------------------------------------------------- */

struct trial {
  struct gpu_device *device;
  struct model *model;
  const struct model_bytes *bytes;
  const struct onnx_file *file;
};

/* Numbers as those of pictures; a model of other numbers, which may be places in a table, gets zeros. */
static bool put_input(const struct cuda_instance *instance, struct gpu_error *error) {
  const size_t bytes = instance->rows * instance->model->input.bytes;
  if (instance->model->input.type != ONNX_FLOAT) {
    return true;
  }
  float *numbers = malloc(bytes);
  for (size_t i = 0; numbers && i < bytes / sizeof *numbers; i++) {
    numbers[i] = (float)(i * 2654435761U % 2048) / 1024 - 1;
  }
  bool good = numbers &&
              CUDA_CALL(instance->device, error, cudaMemcpyAsync, instance->input, numbers, bytes, cudaMemcpyHostToDevice,
                        instance->stream) &&
              CUDA_CALL(instance->device, error, cudaStreamSynchronize, instance->stream);
  free(numbers);
  return good;
}

/* Bytes of all results. */
static size_t result_bytes(const struct model *model) { return model_rows(model) * parts_bytes(&model->parts); }

static bool take_results(const struct cuda_instance *instance, void *results, struct gpu_error *error) {
  return CUDA_CALL(instance->device, error, cudaMemcpyAsync, results, instance->outputs, result_bytes(instance->model),
                   cudaMemcpyDeviceToHost, instance->stream) &&
         CUDA_CALL(instance->device, error, cudaStreamSynchronize, instance->stream);
}

/* Milliseconds of one frame, or 0; `results` are those of the last one. */
static float measure(const struct trial *trial, const struct model_choice *choice, void *results) {
  struct gpu_error error;
  float best = 0, ms = 0;
  struct cuda_opening opening = {.device = trial->device,
                                 .model = trial->model,
                                 .bytes = trial->bytes,
                                 .file = trial->file,
                                 .choice = choice,
                                 .chosen = MODEL_ALL,
                                 .rows = model_rows(trial->model)};
  bool good = cuda_instance_open(&opening, 1, &error);
  struct cuda_instance *instance = opening.instance;
  good = good && put_input(instance, &error) && cuda_instance_time(instance, WARM_UPS, &ms, &error);
  for (int i = 0; i < ROUNDS && good; i++) {
    good = cuda_instance_time(instance, FRAMES, &ms, &error);
    best = good && (best <= 0 || ms < best) ? ms : best;
  }
  good = good && take_results(instance, results, &error);
  bool is_another = instance && instance->choice.channels_last != choice->channels_last; /* the model is not made for it */
  cuda_instance_close(instance);
  return good && !is_another ? best : 0;
}

static bool is_faster(float ms, float than) { return ms > 0 && (than <= 0 || ms < than); }

static bool is_alike(const float *one, const float *other, size_t count) {
  float largest = 0, difference = 0;
  bool finite = true;
  for (size_t i = 0; i < count; i++) {
    largest = fmaxf(largest, fabsf(one[i]));
    difference = fmaxf(difference, fabsf(one[i] - other[i]));
    finite = finite && isfinite(one[i]) && isfinite(other[i]);
  }
  return finite && difference <= largest * (float)MOST_DIFFERENCE;
}

/* Whether there are floats among the results, and all of them are alike. */
static bool are_alike(const struct model *model, const unsigned char *one, const unsigned char *other) {
  const unsigned rows = model_rows(model);
  bool any = false, all = true;
  for (unsigned i = 0; i < model->output_count; i++) {
    const size_t at = rows * model->parts.parts[i].offset;
    if (model->outputs[i].format.dtype == ELEMENT_FLOAT32) {
      any = true;
      all = all && is_alike((const float *)(const void *)(one + at), (const float *)(const void *)(other + at),
                            rows * model->outputs[i].bytes / sizeof(float));
    }
  }
  return any && all;
}

/* ONNX Runtime 1.28 computes wrongly with some convolutions that add their bias: those of planes take what was in the result
 * before for a part of it. Where TF32 is not allowed it may be used nevertheless. */
static bool adds_bias_well(const struct trial *trial, struct model_choice choice, float apart_ms, const unsigned char *apart,
                           unsigned char *within) {
  choice.adds_bias = true;
  return choice.channels_last && trial->model->precision == MODEL_TF32 &&
         is_faster(measure(trial, &choice, within) * (float)EQUAL, apart_ms) && are_alike(trial->model, apart, within);
}

/* `results`: room for those of two. */
static bool weigh(const struct trial *trial, unsigned char *const results[2], struct model_choice *choice) {
  const struct model_choice planes = {.channels_last = false, .exhaustive = true};
  const struct model_choice pixels = {.channels_last = true, .exhaustive = true};
  float planes_ms = measure(trial, &planes, results[0]), pixels_ms = measure(trial, &pixels, results[0]);
  *choice = is_faster(pixels_ms, planes_ms) ? pixels : planes;
  float searched = choice->channels_last ? pixels_ms : planes_ms;
  if (searched <= 0) {
    return false;
  }
  struct model_choice likely = *choice;
  likely.exhaustive = false;
  float likely_ms = measure(trial, &likely, results[1]);
  choice->exhaustive = !is_faster(likely_ms, searched * (float)EQUAL);
  choice->adds_bias = adds_bias_well(trial, *choice, choice->exhaustive ? searched : likely_ms, results[0], results[1]);
  return true;
}

static bool try_all(const struct trial *trial, struct model_choice *choice) {
  unsigned char *const results[2] = {malloc(result_bytes(trial->model)), malloc(result_bytes(trial->model))};
  bool good = results[0] && results[1] && weigh(trial, results, choice);
  free(results[0]);
  free(results[1]);
  return good;
}

struct model_choice cuda_trial_choose(struct gpu_device *device, struct model *model, const struct model_bytes *bytes,
                                      const struct onnx_file *file) {
  char key[CHOICE_KEY];
  struct model_choice choice;
  provider_load(model->runtime); /* so that cuDNN can say its version */
  write_key(device, model, key);
  bool known = choice_find(key, &choice);
  if (!known && !gpu_hurries() && !gpu_device_is_dead(device, NULL)) {
    const struct trial trial = {.device = device, .model = model, .bytes = bytes, .file = file};
    known = try_all(&trial, &choice);
    if (known) {
      choice_keep(key, &choice);
    }
  }
  if (!known) {
    choice = (struct model_choice){.channels_last = true, .exhaustive = false};
  }
  choice.exhaustive = choice.exhaustive && !gpu_hurries();
  return choice;
}
