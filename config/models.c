/*
 * Models: the shapes of their inputs, and the model of each stage. A stage runs a model of `models` by name, or its own file,
 * which becomes a model without a name.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/errors.h"
#include "config/memory.h"
#include "config/reader.h"
#include "config/suggest.h"
#include "config/units.h"

enum { DEFAULT_INSTANCES = 2 };
#define MOST_SIDE 0x1p40

/* -- shapes ------------------------------------------------------------------------------------------------------ */

static bool read_sides(struct reader *reader, const struct config_key *key, const struct node *list,
                       struct config_shape *shape) {
  for (const struct node *child = list->first; child; child = child->next) {
    double side;
    if (shape->rank == CONFIG_MAX_SIDES) {
      config_errors_add(reader->errors, child->at, NULL, "the shape of '%.80s' has more than %d sizes", list->name,
                        CONFIG_MAX_SIDES);
      return false;
    }
    if (child->kind == NODE_INVALID || !value_read_number(reader, key->name, child, true, &side)) {
      return false;
    }
    if (side < (double)key->minimum || side > (double)key->maximum) {
      config_errors_add(reader->errors, child->at, NULL,
                        "a size of '%.80s' must be between %" PRId64 " and %" PRId64 ", not %.80s", list->name, key->minimum,
                        key->maximum, child->text);
      return false;
    }
    shape->sides[shape->rank++] = (int64_t)side;
  }
  return true;
}

static void read_shape(struct reader *reader, const struct config_key *key, const struct node *node,
                       struct config_model *model) {
  char text[READER_WHERE];
  struct config_shape shape = {0};
  if (node->kind != NODE_LIST || !node->first) {
    config_errors_add(reader->errors, node->at, "write it in brackets: [1, 3, 640, 640]",
                      "the shape of '%.80s' must be a list of sizes, not %s", node->name, value_describe(node, text));
    return;
  }
  if (!read_sides(reader, key, node, &shape)) {
    return;
  }
  struct config_shape *grown = memory_grow(model->shapes, model->shape_count, sizeof *grown);
  model->shapes = grown ? grown : model->shapes;
  shape.input = grown ? memory_copy(node->name, strlen(node->name)) : NULL;
  if (shape.input) {
    grown[model->shape_count++] = shape;
  } else {
    errors_set_exhausted(reader->errors);
  }
}

void models_read_shapes(struct reader *reader, const struct config_key *key, const struct node *node,
                        struct config_model *model) {
  char text[READER_WHERE];
  if (node->kind == NODE_INVALID) {
    return;
  }
  if (node->kind != NODE_MAPPING) {
    config_errors_add(reader->errors, node->at, "write it as {images: [1, 3, 640, 640]}, with the name of the input",
                      "'%s' must be a mapping of inputs to their sizes, not %s", key->name, value_describe(node, text));
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    if (model->shape_count == CONFIG_MAX_SHAPES) {
      config_errors_add(reader->errors, child->name_at, NULL, "more than %d shapes of model '%s'", CONFIG_MAX_SHAPES,
                        reader->model);
      return;
    }
    if (child->kind != NODE_INVALID) {
      read_shape(reader, key, child, model);
    }
  }
}

/* -- the list ---------------------------------------------------------------------------------------------------- */

struct config_model *models_add(struct reader *reader, const char *name, struct config_mark at) {
  struct config *config = reader->config;
  struct config_model **models = memory_grow(config->models, config->model_count, sizeof *models);
  config->models = models ? models : config->models;
  struct config_model *model = models ? memory_new(1, sizeof *model) : NULL;
  if (!model) {
    errors_set_exhausted(reader->errors);
    return NULL;
  }
  models[config->model_count++] = model;
  *model =
      (struct config_model){.at = at, .instances = DEFAULT_INSTANCES, .name = name ? memory_copy(name, strlen(name)) : NULL};
  if (name && !model->name) {
    errors_set_exhausted(reader->errors);
  }
  return model;
}

struct config_model *models_find(const struct config *config, const char *name) {
  for (unsigned i = 0; i < config->model_count; i++) {
    if (config->models[i]->name && strcmp(config->models[i]->name, name) == 0) {
      return config->models[i];
    }
  }
  return NULL;
}

/* -- the models of stages -------------------------------------------------------------------------------------------- */

struct resolving {
  struct reader *reader;
  const struct config_pipeline *pipeline;
  struct config_stage *stage;
};

/* The value of the stage's parameter, or NULL if it is absent. */
static const struct config_value *find_value(const struct resolving *at, const char *name) {
  const struct config_stage_type *type = &at->reader->vocabulary->stages[at->stage->type];
  for (unsigned i = 0; i < type->parameter_count; i++) {
    if (strcmp(type->parameters[i].name, name) == 0 && at->stage->values[i].given) {
      return &at->stage->values[i];
    }
  }
  return NULL;
}

static void report_unknown(const struct resolving *at, const char *name) {
  const struct config *config = at->reader->config;
  struct suggestion suggestion = suggest_begin(name);
  char list[READER_WHERE * 2] = "name it under `models:` with its file, or give the stage a `file`";
  int used = 0;
  for (unsigned i = 0; i < config->model_count && config->models[i]->name; i++) {
    const char *other = config->models[i]->name;
    suggest_offer(&suggestion, other);
    if (used < (int)sizeof list) {
      used += snprintf(list + used, sizeof list - (size_t)used, "%s%s", i > 0 ? ", " : "models are ", other);
    }
  }
  char near[SUGGEST_TEXT];
  config_errors_add(at->reader->errors, at->stage->at, suggest_text(&suggestion, list, near),
                    "unknown model '%.80s' in pipeline '%s'", name, at->pipeline->name);
}

/* Copies the stage's setting of an input's shape. */
static bool copy_shape(const struct config_setting *setting, struct config_model *model) {
  struct config_shape *grown = memory_grow(model->shapes, model->shape_count, sizeof *grown);
  model->shapes = grown ? grown : model->shapes;
  char *input = grown ? memory_copy(setting->name, strlen(setting->name)) : NULL;
  if (!input) {
    return false;
  }
  struct config_shape *shape = &grown[model->shape_count++];
  *shape = (struct config_shape){.input = input, .rank = setting->count};
  for (unsigned i = 0; i < setting->count; i++) {
    shape->sides[i] = (int64_t)setting->numbers[i];
  }
  return true;
}

static struct config_model *add_file(const struct resolving *at, const char *file) {
  struct config_model *model = models_add(at->reader, NULL, at->stage->at);
  const struct config_value *shape = find_value(at, "shape");
  if (!model) {
    return NULL;
  }
  model->file_at = at->stage->at;
  model->file = memory_copy(file, strlen(file));
  bool copied = model->file != NULL;
  for (unsigned i = 0; copied && shape && i < shape->setting_count; i++) {
    copied = copy_shape(&shape->settings[i], model);
  }
  if (!copied) {
    errors_set_exhausted(at->reader->errors);
  }
  return model;
}

/* Checks the sizes of a stage's own model like those of `models`. */
static bool check_shape(const struct resolving *at, const struct config_value *name) {
  const struct config_value *shape = find_value(at, "shape");
  unsigned errors = config_errors_count(at->reader->errors);
  if (shape && name) {
    config_errors_add(at->reader->errors, at->stage->at, "give it under `models:`",
                      "'shape' goes only with 'file' in a stage of pipeline '%s'", at->pipeline->name);
  }
  for (unsigned i = 0; shape && i < shape->setting_count; i++) {
    const struct config_setting *setting = &shape->settings[i];
    bool good = !setting->text && setting->count > 0;
    for (unsigned j = 0; j < setting->count; j++) {
      good = good && setting->numbers[j] >= 1 && setting->numbers[j] <= MOST_SIDE &&
             floor(setting->numbers[j]) == setting->numbers[j];
    }
    if (!good) {
      config_errors_add(at->reader->errors, at->stage->at, "write for example {images: [1, 3, 640, 640]}",
                        "the shape of '%.80s' must be a list of sizes in pipeline '%s'", setting->name, at->pipeline->name);
    }
  }
  return config_errors_count(at->reader->errors) == errors;
}

/* False if an error was added, here or while the value was read. */
static bool resolve(const struct resolving *at) {
  const struct config_value *name = find_value(at, "name");
  const struct config_value *file = find_value(at, "file");
  if (name && file) {
    config_errors_add(at->reader->errors, at->stage->at, "keep one of the two",
                      "'name' and 'file' exclude each other in a stage of pipeline '%s'", at->pipeline->name);
  } else if (!name && !file) {
    config_errors_add(at->reader->errors, at->stage->at, "write {name: NAME} with a name of `models`, or {file: FILE}",
                      "a stage of pipeline '%s' names no model", at->pipeline->name);
  } else if (!check_shape(at, name)) {
    return false;
  } else if (file) {
    at->stage->model = file->text ? add_file(at, file->text) : NULL;
  } else if (name->text) {
    at->stage->model = models_find(at->reader->config, name->text);
    if (!at->stage->model) {
      report_unknown(at, name->text);
    }
  }
  return at->stage->model && at->stage->model->file;
}

/* The daemon must not mistake a waiting frame for one that hangs. */
static void check_wait(struct reader *reader, const struct config_model *model) {
  const int64_t most = reader->config->gpu.timeout_ns / 2;
  char wait[UNITS_TEXT], timeout[UNITS_TEXT];
  if (model->batch.wait_ns > most) {
    config_errors_add(reader->errors, model->at, "give it a shorter one, or raise gpu.timeout",
                      "batches of model '%s' wait for %s, which must be at most half of gpu.timeout (%s)", model->name,
                      units_describe_duration(model->batch.wait_ns, wait),
                      units_describe_duration(reader->config->gpu.timeout_ns, timeout));
  }
}

void models_resolve(struct reader *reader) {
  for (unsigned i = 0; i < reader->config->model_count; i++) {
    check_wait(reader, reader->config->models[i]);
  }
  for (unsigned i = 0; i < reader->config->pipeline_count; i++) {
    struct config_pipeline *pipeline = &reader->config->pipelines[i];
    for (unsigned j = 0; j < pipeline->stage_count; j++) {
      struct config_stage *stage = &pipeline->stages[j];
      const struct resolving at = {.reader = reader, .pipeline = pipeline, .stage = stage};
      if (reader->vocabulary->stages[stage->type].runs_model && !resolve(&at)) {
        reader->valid[i] = false;
      }
    }
  }
}

bool config_runs(const struct config_pipeline *pipeline, const struct config_model *model) {
  bool runs = false;
  for (unsigned i = 0; i < pipeline->stage_count; i++) {
    runs = runs || pipeline->stages[i].model == model;
  }
  return runs;
}

bool config_is_run(const struct config *config, const struct config_model *model) {
  bool runs = false;
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    runs = runs || config_runs(&config->pipelines[i], model);
  }
  return runs;
}
