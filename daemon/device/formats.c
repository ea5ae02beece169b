#include "daemon/device/formats.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)CONFIG_MAX_PARAMETERS == (int)STAGE_MAX_PARAMETERS && (int)CONFIG_MAX_NUMBERS == (int)STAGE_MAX_NUMBERS,
               "a configured stage holds what a stage takes");
_Static_assert((int)CONFIG_MAX_RANK == (int)FORMAT_MAX_RANK && (int)CONFIG_MAX_STAGES == (int)GPU_MAX_STAGES &&
                   (int)CONFIG_MAX_SLOTS == (int)GPU_MAX_SLOTS,
               "the configuration's bounds are those of the GPU's interface");

_Static_assert(sizeof(struct config_setting) == sizeof(struct stage_setting) &&
                   offsetof(struct config_setting, name) == offsetof(struct stage_setting, name) &&
                   offsetof(struct config_setting, text) == offsetof(struct stage_setting, text) &&
                   offsetof(struct config_setting, count) == offsetof(struct stage_setting, count) &&
                   offsetof(struct config_setting, numbers) == offsetof(struct stage_setting, numbers),
               "a configured setting is what a stage takes");

struct vocabulary {
  struct config_vocabulary words;
  const char *pixels[PIXELS_COUNT]; /* without PIXELS_NONE, NULL at the end */
  const char *dtypes[ELEMENT_COUNT + 1];
  struct config_stage_type *stages;
  struct config_parameter *parameters; /* of all stages, one after the other */
};

static enum config_parameter_type parameter_type(enum stage_parameter_type type) {
  switch (type) {
  case STAGE_INTEGER:
    return CONFIG_INTEGER;
  case STAGE_CHOICE:
    return CONFIG_CHOICE;
  case STAGE_NUMBERS:
    return CONFIG_NUMBERS;
  case STAGE_WORD:
    return CONFIG_WORD;
  case STAGE_FILE:
    return CONFIG_PATH;
  case STAGE_SETTINGS:
    return CONFIG_SETTINGS;
  case STAGE_NUMBER:
    break;
  }
  return CONFIG_NUMBER;
}

static struct config_parameter translate_parameter(const struct stage_parameter *parameter) {
  return (struct config_parameter){.name = parameter->name,
                                   .type = parameter_type(parameter->type),
                                   .required = parameter->required,
                                   .minimum = parameter->minimum,
                                   .maximum = parameter->maximum,
                                   .fallback = parameter->fallback,
                                   .choices = parameter->choices,
                                   .help = parameter->help};
}

static unsigned count_stages(unsigned *parameters) {
  unsigned stages = 0;
  *parameters = 0;
  for (; stage_abouts[stages]; stages++) {
    *parameters += stage_abouts[stages]->parameter_count;
  }
  return stages;
}

static void receive_stages(struct vocabulary *vocabulary) {
  struct config_parameter *next = vocabulary->parameters;
  for (unsigned i = 0; stage_abouts[i]; i++) {
    const struct stage_about *stage = stage_abouts[i];
    vocabulary->stages[i] = (struct config_stage_type){.name = stage->name,
                                                       .help = stage->help,
                                                       .parameters = next,
                                                       .parameter_count = stage->parameter_count,
                                                       .runs_model = stage->runs_model};
    for (unsigned j = 0; j < stage->parameter_count; j++) {
      *next++ = translate_parameter(&stage->parameters[j]);
    }
  }
}

struct vocabulary *formats_new(void) {
  struct vocabulary *vocabulary = calloc(1, sizeof *vocabulary);
  if (!vocabulary) {
    return NULL;
  }
  unsigned parameters;
  unsigned stages = count_stages(&parameters);
  vocabulary->stages = calloc(stages + 1, sizeof *vocabulary->stages);
  vocabulary->parameters = calloc(parameters + 1, sizeof *vocabulary->parameters);
  if (!vocabulary->stages || !vocabulary->parameters) {
    return formats_free(vocabulary);
  }
  memcpy(vocabulary->pixels, pixel_format_names + 1, (PIXELS_COUNT - 1) * sizeof *vocabulary->pixels);
  memcpy(vocabulary->dtypes, element_type_names, ELEMENT_COUNT * sizeof *vocabulary->dtypes);
  receive_stages(vocabulary);
  vocabulary->words = (struct config_vocabulary){
      .pixels = vocabulary->pixels, .dtypes = vocabulary->dtypes, .stages = vocabulary->stages, .stage_count = stages};
  return vocabulary;
}

struct vocabulary *formats_free(struct vocabulary *vocabulary) {
  if (vocabulary) {
    free(vocabulary->stages);
    free(vocabulary->parameters);
    free(vocabulary);
  }
  return NULL;
}

const struct config_vocabulary *formats_words(const struct vocabulary *vocabulary) { return &vocabulary->words; }

struct frame_format formats_format(const struct config_format *format) {
  if (format->is_tensor) {
    return format_tensor((enum element_type)format->dtype, format->shape, format->rank);
  }
  return format_image((enum pixel_format)(format->pixels + 1), format->width, format->height);
}

enum gpu_backend_choice formats_backend(enum config_backend backend) {
  switch (backend) {
  case CONFIG_BACKEND_CUDA:
    return GPU_BACKEND_CUDA;
  case CONFIG_BACKEND_CPU:
    return GPU_BACKEND_CPU;
  case CONFIG_BACKEND_AUTO:
    break;
  }
  return GPU_BACKEND_AUTO;
}

enum gpu_priority formats_priority(enum config_priority priority) {
  return priority == CONFIG_PRIORITY_HIGH  ? GPU_PRIORITY_HIGH
         : priority == CONFIG_PRIORITY_LOW ? GPU_PRIORITY_LOW
                                           : GPU_PRIORITY_NORMAL;
}

/* The settings stay the configuration's: both structs are laid out alike. */
static void translate_stage(const struct config_stage *stage, struct gpu_stage_request *request) {
  *request = (struct gpu_stage_request){.stage = stage_abouts[stage->type]};
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    const struct config_value *value = &stage->values[i];
    request->values[i] = (struct stage_value){.given = value->given,
                                              .count = value->count,
                                              .text = value->text,
                                              .settings = (const struct stage_setting *)(const void *)value->settings,
                                              .setting_count = value->setting_count};
    memcpy(request->values[i].numbers, value->numbers, sizeof request->values[i].numbers);
  }
  request->resource = stage->model ? stage->model->open : NULL;
}

/* What `models` says of the output is for stages that do not say it. */
static void choose_output(const struct config_stage *stage, struct gpu_stage_request *request) {
  for (unsigned i = 0; stage->model && stage->model->output && i < request->stage->parameter_count; i++) {
    if (strcmp(request->stage->parameters[i].name, "output") == 0 && !request->values[i].given) {
      request->values[i] = (struct stage_value){.given = true, .count = 1, .text = stage->model->output};
    }
  }
}

struct device_chain *formats_chain(struct device *device, enum config_backend backend, const struct config_pipeline *pipeline,
                                   struct gpu_error *error) {
  struct gpu_stage_request requests[GPU_MAX_STAGES];
  for (unsigned i = 0; i < pipeline->stage_count; i++) {
    translate_stage(&pipeline->stages[i], &requests[i]);
    choose_output(&pipeline->stages[i], &requests[i]);
    requests[i].users = pipeline->slots * pipeline->source.clients;
  }
  struct frame_format input = formats_format(&pipeline->source.format);
  return device_chain_new(device, formats_backend(backend), &input, requests, pipeline->stage_count, error);
}
