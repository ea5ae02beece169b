#include "daemon/base/models.h"

#include <stdio.h>
#include <string.h>

#include "gpu/model/model.h"

_Static_assert((int)CONFIG_MAX_SIDES == (int)MODEL_MOST_RANK, "a configured shape holds what a model takes");

static void close_model(void *model) { model_release(model); }

/* One that was opened from the same file with the same keys, or NULL. */
static const struct config_model *find_open(const struct config *config, const struct config_model *wanted) {
  for (unsigned i = 0; config && i < config->model_count; i++) {
    const struct config_model *model = config->models[i];
    if (model->open && strcmp(model->text, wanted->text) == 0) {
      return model;
    }
  }
  return NULL;
}

static struct model *open_file(const struct config_model *config, const char *file, struct gpu_error *error) {
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
  };
  return model_open(&settings, error);
}

static void report(const struct config_model *model, struct config_mark at, const struct gpu_error *error,
                   struct config_errors *errors) {
  const char *remedy = error->remedy[0] ? error->remedy : NULL;
  if (model->name) {
    config_errors_add(errors, at, remedy, "model '%s': %s", model->name, error->text);
  } else {
    config_errors_add(errors, at, remedy, "%s", error->text);
  }
}

static bool has_output(struct config_model *model, struct config_errors *errors) {
  bool all = !model->output || strcmp(model->output, "all") == 0;
  if (all || model_find_output(model->open, model->output) != MODEL_ALL) {
    return true;
  }
  char list[1024] = "its outputs are all";
  size_t length = strlen(list);
  for (unsigned i = 0; i < model_output_count(model->open) && length < sizeof list; i++) {
    length += (size_t)snprintf(list + length, sizeof list - length, ", %s", model_output(model->open, i)->name);
  }
  config_errors_add(errors, model->file_at, list, "model '%s' has no output '%.80s'", model->name, model->output);
  return false;
}

/* Results can be compared only where they are alike. */
static bool is_comparable(const struct model *model, const struct model *shadow) {
  bool same = model_input(model)->format.dtype == model_input(shadow)->format.dtype &&
              model_input(model)->bytes == model_input(shadow)->bytes &&
              model_output_count(model) == model_output_count(shadow);
  for (unsigned i = 0; same && i < model_output_count(model); i++) {
    const struct model_tensor *one = model_output(model, i), *other = model_output(shadow, i);
    same = one->format.dtype == other->format.dtype && one->bytes == other->bytes;
  }
  return same;
}

static bool open_shadow(struct config_model *model, struct config_errors *errors) {
  struct gpu_error error = {.stage = -1};
  model->shadow.open = open_file(model, model->shadow.file, &error);
  if (!model->shadow.open) {
    report(model, model->shadow.file_at, &error, errors);
    return false;
  }
  if (is_comparable(model->open, model->shadow.open)) {
    return true;
  }
  config_errors_add(errors, model->shadow.file_at, "take one with the same input and outputs",
                    "model '%s': %s takes or gives other tensors than %s", model->name, model->shadow.file, model->file);
  return false;
}

bool models_open(const struct config *before, const struct config *config, struct config_model *model,
                 struct config_errors *errors) {
  const struct config_model *other = find_open(config, model);
  other = other ? other : find_open(before, model);
  model->close = close_model;
  if (other) {
    model->open = model_hold(other->open);
    model->shadow.open = other->shadow.open ? model_hold(other->shadow.open) : NULL;
    return true;
  }
  struct gpu_error error = {.stage = -1};
  model->open = open_file(model, model->file, &error);
  if (!model->open) {
    report(model, model->file_at, &error, errors);
    return false;
  }
  return has_output(model, errors) && (!model->shadow.file || open_shadow(model, errors));
}
