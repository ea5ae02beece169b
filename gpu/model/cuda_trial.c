/* Weighs ways to open a model; see cuda_trial.h. */
#include "gpu/model/cuda_trial.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

enum { WARM_UPS = 3, ROUNDS = 3, FRAMES = 8 };
/* A model that is replayed this much slower is as fast: what another search finds differs from time to time. */
#define EQUAL 1.02

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

/* Milliseconds of one frame, or 0. */
static float measure(struct gpu_device *device, struct model *model, const struct model_bytes *bytes,
                     const struct onnx_file *file, const struct model_choice *choice) {
  struct gpu_error error;
  float best = 0, ms = 0;
  struct cuda_instance *instance =
      cuda_instance_open(device, model, bytes, file, NULL, MODEL_ALL, model_rows(model), choice, &error);
  bool good = instance && cuda_instance_time(instance, WARM_UPS, &ms, &error);
  for (int i = 0; i < ROUNDS && good; i++) {
    good = cuda_instance_time(instance, FRAMES, &ms, &error);
    best = good && (best <= 0 || ms < best) ? ms : best;
  }
  bool is_another = instance && instance->choice.channels_last != choice->channels_last; /* the model is not made for it */
  cuda_instance_close(instance);
  return good && !is_another ? best : 0;
}

static bool is_faster(float ms, float than) { return ms > 0 && (than <= 0 || ms < than); }

static bool weigh(struct gpu_device *device, struct model *model, const struct model_bytes *bytes, const struct onnx_file *file,
                  struct model_choice *choice) {
  const struct model_choice planes = {.channels_last = false, .exhaustive = true};
  const struct model_choice pixels = {.channels_last = true, .exhaustive = true};
  float planes_ms = measure(device, model, bytes, file, &planes), pixels_ms = measure(device, model, bytes, file, &pixels);
  *choice = is_faster(pixels_ms, planes_ms) ? pixels : planes;
  float searched = choice->channels_last ? pixels_ms : planes_ms;
  if (searched <= 0) {
    return false;
  }
  struct model_choice likely = *choice;
  likely.exhaustive = false;
  float likely_ms = measure(device, model, bytes, file, &likely);
  choice->exhaustive = !is_faster(likely_ms, searched * (float)EQUAL);
  return true;
}

struct model_choice cuda_trial_choose(struct gpu_device *device, struct model *model, const struct model_bytes *bytes,
                                      const struct onnx_file *file) {
  char key[CHOICE_KEY];
  struct model_choice choice;
  provider_load(model->runtime); /* so that cuDNN can say its version */
  write_key(device, model, key);
  bool known = choice_find(key, &choice);
  if (!known && !gpu_hurries() && !gpu_device_is_dead(device, NULL)) {
    known = weigh(device, model, bytes, file, &choice);
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
