/* Models as the rest of the program has them: opened, held, asked; see model.h. */
#include "gpu/cpu_host.h"
#include "gpu/model/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Instances and the threads of each share the workers of the CPU backend. */
static void settle(struct model *model, const struct model_settings *settings) {
  unsigned workers = cpu_host_processors();
  model->instances = settings->instances ? settings->instances : MODEL_INSTANCES;
  model->threads = workers > model->instances ? workers / model->instances : 1;
  model->memory = settings->memory;
  model->precision = settings->precision;
}

static bool fill(struct model *model, const struct model_settings *settings, struct gpu_error *error) {
  struct model_bytes bytes;
  struct onnx_file file;
  if (!model_bytes_read(model->path, &bytes, &file, error)) {
    return false;
  }
  model->ir_version = file.ir_version;
  model->opset = file.opset;
  model->weight_bytes = file.weight_bytes;
  model->nodes = file.nodes;
  model->hash = bytes.hash;
  memcpy(model->parts.magic, PARTS_MAGIC, sizeof model->parts.magic);
  bool good = signature_read_input(model, &file, settings, error) && (model->runtime = onnxruntime_load(error)) &&
              session_open(model, &bytes, &file, error);
  model_bytes_free(&bytes);
  return good;
}

struct model *model_open(const struct model_settings *settings, struct gpu_error *error) {
  struct model *model = calloc(1, sizeof *model);
  char *path = strdup(settings->file);
  if (!model || !path) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for a model");
    free(model);
    free(path);
    return NULL;
  }
  model->holders = 1;
  model->path = path;
  settle(model, settings);
  return fill(model, settings, error) ? model : model_release(model);
}

struct model *model_hold(struct model *model) {
  atomic_fetch_add(&model->holders, 1);
  return model;
}

struct model *model_release(struct model *model) {
  if (model && atomic_fetch_sub(&model->holders, 1) == 1) {
    session_close(model);
    free(model->path);
    free(model);
  }
  return NULL;
}

void model_summary(const struct model *model, struct model_summary *summary) {
  *summary = (struct model_summary){
      .file = model->path,
      .runtime = model->runtime->version,
      .ir_version = model->ir_version,
      .opset = model->opset,
      .weight_bytes = model->weight_bytes,
      .nodes = model->nodes,
      .hash = model->hash,
      .instances = model->instances,
      .threads = model->threads,
      .memory = model->memory,
      .precision = model->precision,
  };
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
