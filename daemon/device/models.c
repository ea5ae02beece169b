#include "daemon/device/models.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/log_text.h"
#include "daemon/device/device.h"
#include "gpu/model/operators.h"

_Static_assert((int)CONFIG_MAX_SIDES == (int)MODEL_MOST_RANK, "a configured shape holds what a model takes");

static void close_model(void *model) { device_model_free(model); }
static struct device_model *open_file(const struct config_model *config, const char *file, unsigned most,
                                      struct gpu_error *error) {
  struct model_shape shapes[CONFIG_MAX_SHAPES];
  for (unsigned i = 0; i < config->shape_count; i++) {
    shapes[i] = (struct model_shape){.input = config->shapes[i].input, .rank = config->shapes[i].rank};
    memcpy(shapes[i].sides, config->shapes[i].sides, sizeof shapes[i].sides);
  }
  const struct model_settings settings = {
      .file = file,
      .shapes = shapes,
      .shape_count = config->shape_count,
      .instances = config->instances,
      .memory = (size_t)config->memory,
      .precision = config->precision == CONFIG_FLOAT32 ? MODEL_FLOAT32 : MODEL_TF32,
      .batch = {.most = most, .wait_ns = config->batch.wait_ns},
  };
  return device_model_open(&settings, error);
}

static void report(const struct config_model *model, struct config_mark at, const struct gpu_error *error,
                   struct config_errors *errors) {
  const char *remedy = error->remedy[0] ? error->remedy : "put a file of ONNX there that the daemon's user may read";
  if (model->name) {
    config_errors_add(errors, at, remedy, "model '%s': %s", model->name, error->text);
  } else {
    config_errors_add(errors, at, remedy, "%s", error->text);
  }
}

static bool has_output(struct config_model *model, struct config_errors *errors) {
  bool all = !model->output || strcmp(model->output, "all") == 0;
  if (all || device_model_find_output(model->open, model->output) != MODEL_ALL) {
    return true;
  }
  char list[1024] = "its outputs are all";
  size_t length = strlen(list);
  const struct model_record *record = device_model_record(model->open);
  for (unsigned i = 0; i < record->output_count && length < sizeof list; i++) {
    length += (size_t)snprintf(list + length, sizeof list - length, ", %s", record->outputs[i].name);
  }
  config_errors_add(errors, model->file_at, list, "model '%s' has no output '%.80s'", model->name, model->output);
  return false;
}

bool models_open(struct config_model *model, struct config_errors *errors) {
  struct gpu_error error = {.stage = -1};
  model->close = close_model;
  model->open = open_file(model, model->file, model->batch.most, &error);
  if (!model->open) {
    report(model, model->file_at, &error, errors);
    return false;
  }
  model->contents = device_model_record(model->open)->summary.hash;
  return has_output(model, errors);
}

/* -- what is said of them ------------------------------------------------------------------------------------------- */

static const char *name_of(const struct config_model *model) { return model->name ? model->name : model->file; }

/* Whether one of the first `count` models is `open`. */
static bool has_open(const struct config *config, unsigned count, const void *open) {
  bool has = false;
  for (unsigned i = 0; i < count; i++) {
    has = has || (config->models[i]->open && device_model_same(config->models[i]->open, open));
  }
  return has;
}

unsigned models_files(const struct config *config, struct kept_file *files, unsigned count, unsigned most) {
  for (unsigned i = 0; i < config->model_count; i++) {
    const struct config_model *model = config->models[i];
    count = model->open ? device_model_files(model->open, files, count, most) : count;
  }
  return count;
}

void models_settle(const struct config *config) {
  for (unsigned i = 0; i < config->model_count; i++) {
    if (config->models[i]->open) {
      device_model_settle(config->models[i]->open);
    }
  }
  device_judge_end();
}

void models_log(const struct config *config, const struct config *before) {
  for (unsigned i = 0; i < config->model_count; i++) {
    const struct config_model *model = config->models[i];
    if (!model->open) {
      log_event(LOG_UNUSED, NULL, "no pipeline runs model '%s', which is not opened", model->name);
    } else if (!has_open(config, i, model->open) && !(before && has_open(before, before->model_count, model->open))) {
      const struct model_summary *summary = &device_model_record(model->open)->summary;
      log_event(LOG_MODEL, NULL, "model %s is open: %s, opset %" PRId64 ", by ONNX Runtime %s", name_of(model), model->file,
                summary->opset, summary->runtime);
    }
  }
}

static void print_model(FILE *out, const struct config_model *model) {
  char input[FORMAT_TEXT], output[FORMAT_TEXT], outputs[FORMAT_TEXT + 32], weights[BYTES_TEXT], together[BYTES_TEXT];
  const struct model_record *record = device_model_record(model->open);
  const struct model_summary *summary = &record->summary;
  unsigned others = record->output_count - 1;
  format_describe(&record->outputs[0].format, output);
  snprintf(outputs, sizeof outputs, others > 0 ? "%s and %u more" : "%s", output, others);
  fprintf(out, "%-16s %-22s %-30s %9u %11s %11s\n", name_of(model), format_describe(&record->input.format, input), outputs,
          summary->instances, text_of_bytes(summary->weight_bytes, weights),
          text_of_bytes(summary->instances * summary->weight_bytes, together));
}

/* On a GPU there is a graph for each power of two below the most, with weights and places of its own. */
static void print_batch(FILE *out, const struct config_model *model) {
  const struct model_record *record = device_model_record(model->open);
  const struct model_summary *summary = &record->summary;
  char frames[BYTES_TEXT], weights[BYTES_TEXT];
  size_t each = record->input.bytes;
  unsigned sizes = 1, rows = 1, all = 1;
  if (summary->batch.most < 2) {
    return;
  }
  for (unsigned i = 0; i < record->output_count; i++) {
    each += record->outputs[i].bytes;
  }
  for (; rows < summary->batch.most && !summary->is_padded; rows *= 2, sizes++) {
    all += rows;
  }
  all += summary->batch.most - 1;
  fprintf(out, "note: model '%s' computes up to %u frames together: %s of memory for them in each of %u instances",
          name_of(model), summary->batch.most, text_of_bytes(summary->batch.most * each, frames), summary->instances);
  text_of_bytes(all * each, frames);
  fprintf(out, "; on a GPU %s for them, and the weights %u times (%s)\n", frames, sizes,
          text_of_bytes(sizes * summary->weight_bytes, weights));
}

/* What a GPU would not take, where this machine need not be the one with the GPU. */
static void print_gpu(FILE *out, const struct config_model *model) {
  const struct model_summary *summary = &device_model_record(model->open)->summary;
  char operators[OPERATORS_TEXT], weights[BYTES_TEXT], most[BYTES_TEXT];
  if (summary->off_gpu != 0) {
    fprintf(
        out,
        "note: model '%s' has operators that ONNX Runtime does not compute on a GPU alone: %s; a GPU refuses it, unless they "
        "vanish when it is opened: export it without, or set gpu.backend to cpu\n",
        name_of(model), operators_describe(summary->off_gpu, operators));
  }
  if (summary->memory > 0 && summary->memory < summary->weight_bytes) {
    fprintf(out, "note: model '%s' may take %s on a GPU (memory), and its weights alone are %s: a GPU refuses it\n",
            name_of(model), text_of_bytes(summary->memory, most), text_of_bytes(summary->weight_bytes, weights));
  }
}

void models_print(FILE *out, const struct config *config) {
  static const char *const head =
      "\nMODEL            INPUT                  OUTPUT                         INSTANCES     WEIGHTS    TOGETHER\n";
  bool any = false;
  for (unsigned i = 0; i < config->model_count; i++) {
    const struct config_model *model = config->models[i];
    if (model->open && !has_open(config, i, model->open)) {
      fputs(any ? "" : head, out);
      print_model(out, model);
      any = true;
    }
  }
  for (unsigned i = 0; i < config->model_count; i++) {
    if (config->models[i]->open && !has_open(config, i, config->models[i]->open)) {
      print_batch(out, config->models[i]);
      if (config->gpu.backend != CONFIG_BACKEND_CPU) {
        print_gpu(out, config->models[i]);
      }
    }
  }
  for (unsigned i = 0; i < config->model_count; i++) {
    if (!config->models[i]->open) {
      fprintf(out, "note: no pipeline runs model '%s', which was not looked into\n", config->models[i]->name);
    }
  }
}
