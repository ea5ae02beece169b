/*
 * Models as the rest of the program has them: opened, held, asked; see model.h.
 *
 * The models that are open are in one list, by what was asked for and by what is in its files, so that whoever asks for the
 * same gets the same one: its weights are in memory once.
 */
#include "gpu/cpu/host.h"
#include "gpu/model/private.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of opening */
static struct model *models;

/* -- the list ----------------------------------------------------------------------------------------------------------- */

/* What was asked for, and what is in its files, for the caller to free. NULL: there is no memory. */
static char *write_key(const struct model_settings *settings, uint64_t hash) {
  char *key = NULL;
  size_t length;
  FILE *out = open_memstream(&key, &length);
  if (!out) {
    return NULL;
  }
  fprintf(out, "%016" PRIx64 " %u %zu %d %u %jd", hash, settings->instances, settings->memory, (int)settings->precision,
          settings->batch.most, (intmax_t)settings->batch.wait_ns);
  for (unsigned i = 0; i < settings->shape_count; i++) {
    fprintf(out, " %s", settings->shapes[i].input);
    for (unsigned k = 0; k < settings->shapes[i].rank; k++) {
      fprintf(out, ",%jd", (intmax_t)settings->shapes[i].sides[k]);
    }
  }
  fprintf(out, " %s", settings->file);
  if (fclose(out) != 0) {
    free(key);
    return NULL;
  }
  return key;
}

static struct model *find(const char *key) {
  struct model *model = models;
  while (model && strcmp(model->key, key) != 0) {
    model = model->next;
  }
  return model;
}

static void unlink_model(const struct model *model) {
  for (struct model **link = &models; *link; link = &(*link)->next) {
    if (*link == model) {
      *link = model->next;
      return;
    }
  }
}

/* -- opening ------------------------------------------------------------------------------------------------------------ */

/* Instances and the threads of each share the workers of the CPU backend. */
static void settle(struct model *model, const struct model_settings *settings) {
  unsigned workers = cpu_host_processors();
  model->instances = settings->instances ? settings->instances : MODEL_INSTANCES;
  model->threads = workers > model->instances ? workers / model->instances : 1;
  model->memory = settings->memory;
  model->precision = settings->precision;
  model->batch = settings->batch;
}

static bool fill(struct model *model, const struct model_settings *settings, const struct model_bytes *bytes,
                 const struct onnx_file *file, struct gpu_error *error) {
  model->ir_version = file->ir_version;
  model->opset = file->opset;
  model->weight_bytes = file->weight_bytes;
  model->single_bytes = file->single_bytes;
  model->nodes = file->nodes;
  model->off_gpu = file->off_gpu;
  model->takes_rows = file->inputs[0].rank > 1 && file->inputs[0].shape[0] < 0;
  model->hash = bytes->hash;
  memcpy(model->parts.magic, PARTS_MAGIC, sizeof model->parts.magic);
  model->runtime = signature_read_input(model, file, settings, error) ? onnxruntime_load(error) : NULL;
  return model->runtime && session_open(model, bytes, file, error);
}

static void free_model(struct model *model) {
  session_close(model);
  for (unsigned i = 0; i <= ONNX_MOST_FILES; i++) {
    kept_close(&model->files[i]);
  }
  free(model->key);
  free(model->path);
  free(model);
}

/* Takes the key over. */
static struct model *make(const struct model_settings *settings, char *key, const struct model_bytes *bytes,
                          const struct onnx_file *file, struct gpu_error *error) {
  struct model *model = calloc(1, sizeof *model);
  char *path = strdup(settings->file);
  if (!model || !path) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a model");
    free(model);
    free(path);
    free(key);
    return NULL;
  }
  model->served = model->own_served;
  model->batches = model->own_batches;
  model->holders = 1;
  model->key = key;
  model->path = path;
  settle(model, settings);
  if (!fill(model, settings, bytes, file, error)) {
    free_model(model);
    return NULL;
  }
  model->next = models;
  models = model;
  return model;
}

static struct model *find_or_make(const struct model_settings *settings, struct model_bytes *bytes,
                                  const struct onnx_file *file, struct gpu_error *error) {
  char *key = write_key(settings, bytes->hash);
  struct model *model = key ? find(key) : NULL;
  if (model) {
    model->holders++;
    free(key);
  } else if (key) {
    model = make(settings, key, bytes, file, error);
    if (model) {
      memcpy(model->files, bytes->kept, sizeof model->files);
      memset(bytes->kept, 0, sizeof bytes->kept);
    }
  } else {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a model");
  }
  return model;
}

struct model *model_open(const struct model_settings *settings, struct gpu_error *error) {
  struct model_bytes bytes;
  struct onnx_file file;
  struct model *model = NULL;
  pthread_mutex_lock(&lock);
  if (model_bytes_read(settings->file, &bytes, &file, error)) {
    model = find_or_make(settings, &bytes, &file, error);
    model_bytes_free(&bytes);
  }
  pthread_mutex_unlock(&lock);
  return model;
}

struct model *model_hold(struct model *model) {
  pthread_mutex_lock(&lock);
  model->holders++;
  pthread_mutex_unlock(&lock);
  return model;
}

struct model *model_release(struct model *model) {
  pthread_mutex_lock(&lock);
  bool last = model && --model->holders == 0;
  if (last) {
    unlink_model(model);
  }
  pthread_mutex_unlock(&lock);
  if (last) {
    free_model(model);
  }
  return NULL;
}

unsigned model_files(const struct model *model, struct kept_file *list, unsigned count, unsigned most) {
  for (unsigned i = 0; i <= ONNX_MOST_FILES; i++) {
    count = kept_list(&model->files[i], list, count, most);
  }
  return count;
}

/* -- asking ------------------------------------------------------------------------------------------------------------- */

void model_summary(const struct model *model, struct model_summary *summary) {
  *summary = (struct model_summary){
      .file = model->path,
      .runtime = model->runtime->version,
      .ir_version = model->ir_version,
      .opset = model->opset,
      .weight_bytes = model->weight_bytes,
      .takes_rows = model->takes_rows,
      .off_gpu = model->off_gpu,
      .is_single = model->single_bytes > model->weight_bytes / 2,
      .users = atomic_load(&model->users),
      .nodes = model->nodes,
      .hash = model->hash,
      .instances = model->instances,
      .threads = model->threads,
      .memory = model->memory,
      .precision = model->precision,
      .batch = model->batch,
      .is_padded = model->is_padded,
  };
}

void model_count_in(struct model *model, _Atomic uint64_t *served, _Atomic uint64_t *batches) {
  struct stage_counter *counters = served ? (struct stage_counter *)(void *)served : model->own_served;
  batches = batches ? batches : model->own_batches;
  for (unsigned i = 0; i < MODEL_MOST_INSTANCES; i++) {
    atomic_store(&counters[i].frames, atomic_load(&model->served[i].frames));
  }
  for (unsigned i = 0; i < MODEL_MOST_BATCH; i++) {
    atomic_store(&batches[i], atomic_load(&model->batches[i]));
  }
  model->served = counters;
  model->batches = batches;
}

unsigned model_served(const struct model *model, uint64_t served[MODEL_MOST_INSTANCES]) {
  unsigned count = model->instances;
  for (unsigned i = 0; i < MODEL_MOST_INSTANCES; i++) {
    served[i] = atomic_load_explicit(&model->served[i].frames, memory_order_relaxed);
    count = served[i] > 0 && i >= count ? i + 1 : count;
  }
  return count;
}

unsigned model_batches(const struct model *model, uint64_t batches[MODEL_MOST_BATCH]) {
  for (unsigned i = 0; i < MODEL_MOST_BATCH; i++) {
    batches[i] = atomic_load_explicit(&model->batches[i], memory_order_relaxed);
  }
  return model->batch.most;
}

const struct model_tensor *model_input(const struct model *model) { return &model->input; }

unsigned model_output_count(const struct model *model) { return model->output_count; }

const struct model_tensor *model_output(const struct model *model, unsigned index) {
  return index < model->output_count ? &model->outputs[index] : NULL;
}

int model_find_output(const struct model *model, const char *name) {
  for (unsigned i = 0; i < model->output_count; i++) {
    if (strcmp(model->outputs[i].name, name) == 0) {
      return (int)i;
    }
  }
  return MODEL_ALL;
}
