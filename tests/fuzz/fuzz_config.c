/*
 * The configuration from any bytes. There is either a configuration or an error; the report of errors is printable and
 * bounded; and the canonical text reads back as itself.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST_REPORT = 64 * 2048 };

static const char *const pixels[] = {"gray", "rgb24", "yuv420p", "nv12", NULL};
static const char *const dtypes[] = {"uint8", "float32", NULL};
static const struct config_parameter parameters[] = {
    {.name = "scale", .minimum = -1e9, .maximum = 1e9, .fallback = 1, .help = "A number."},
    {.name = "rounds", .type = CONFIG_INTEGER, .minimum = 0, .maximum = 1e15, .help = "A whole number."},
    {.name = "to", .type = CONFIG_CHOICE, .choices = pixels, .help = "A choice."},
    {.name = "mean", .type = CONFIG_NUMBERS, .minimum = -1e300, .maximum = 1e300, .help = "Numbers."},
};
static const struct config_parameter needed[] = {
    {.name = "size", .type = CONFIG_INTEGER, .required = true, .minimum = 1, .maximum = 9, .help = "Needed."},
};
static const struct config_parameter model[] = {
    {.name = "name", .type = CONFIG_WORD, .help = "A text."},
    {.name = "file", .type = CONFIG_PATH, .help = "A path."},
    {.name = "shape", .type = CONFIG_SETTINGS, .help = "Settings."},
};
static const struct config_stage_type stages[] = {
    {.name = "affine", .help = "Has one parameter of each number.", .parameters = parameters, .parameter_count = 4},
    {.name = "blur", .help = "Needs its parameter.", .parameters = needed, .parameter_count = 1},
    {.name = "sobel", .help = "Has no parameter."},
    {.name = "model", .help = "Runs a model.", .parameters = model, .parameter_count = 3, .runs_model = true},
};
static const struct config_vocabulary vocabulary = {pixels, dtypes, stages, 4};

/* Touches all that a caller may read of a pipeline that is valid in itself. */
static void check(const struct config *config, const struct config_pipeline *pipeline, struct config_errors *errors,
                  void *context) {
  (void)errors;
  (void)context;
  assert(pipeline->slots >= 1 && pipeline->slots <= CONFIG_MAX_SLOTS);
  assert(pipeline->source.path && strlen(pipeline->name) > 0);
  assert((pipeline->sink.endpoint == CONFIG_REPLY) == (pipeline->sink.path == NULL));
  assert(pipeline->source.format.is_tensor ? pipeline->source.format.rank >= 1 : pipeline->source.format.width >= 1);
  for (unsigned i = 0; i < pipeline->stage_count; i++) {
    assert(pipeline->stages[i].type < vocabulary.stage_count);
    const struct config_model *of = pipeline->stages[i].model;
    assert(!of == !stages[pipeline->stages[i].type].runs_model);
    assert(!of || (of->file && of->instances >= 1 && config_is_run(config, of)));
  }
}

static const struct config_hooks hooks = {.vocabulary = &vocabulary, .check = check};

static void check_report(struct config_errors *errors) {
  const char *report = config_errors_text(errors);
  size_t length = strlen(report);
  assert(length > 0 && length < LONGEST_REPORT && report[length - 1] == '\n');
  for (const char *at = report; *at; at++) {
    assert(*at == '\n' || (unsigned char)*at >= 0x20);
  }
}

static void check_text(const struct config *config) {
  struct config_errors *errors = config_errors_new();
  struct config *again = config_parse("again", config->text, strlen(config->text), &hooks, errors);
  assert(again && strcmp(again->text, config->text) == 0 && again->pipeline_count == config->pipeline_count);
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    assert(strcmp(again->pipelines[i].text, config->pipelines[i].text) == 0);
  }
  config_free(again);
  config_errors_free(errors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct config_errors *errors = config_errors_new();
  struct config *config = config_parse("fuzz", (const char *)data, size, &hooks, errors);
  assert((config != NULL) == (config_errors_count(errors) == 0));
  if (config) {
    check_text(config);
  } else {
    check_report(errors);
  }
  config_free(config);
  config_errors_free(errors);
  return 0;
}
