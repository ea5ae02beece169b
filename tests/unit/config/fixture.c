#include "tests/unit/config/fixture.h"

#include <string.h>

static const char *const pixels[] = {"gray", "rgb24", "yuv420p", NULL};
static const char *const dtypes[] = {"uint8", "float32", NULL};
static const char *const targets[] = {"gray", "rgb24", "yuv420p", NULL};
static const char *const matrices[] = {"bt601", "bt709", NULL};

static const struct config_parameter affine[] = {
    {.name = "scale", .minimum = -1e6, .maximum = 1e6, .fallback = 1, .help = "Factor."},
    {.name = "offset", .minimum = -1e6, .maximum = 1e6, .help = "Added after scaling."},
};
static const struct config_parameter convert[] = {
    {.name = "to", .type = CONFIG_CHOICE, .required = true, .choices = targets, .help = "Pixel format of the result."},
    {.name = "matrix", .type = CONFIG_CHOICE, .choices = matrices, .fallback = 1, .help = "Weights of the colours."},
};
static const struct config_parameter normalize[] = {
    {.name = "mean", .type = CONFIG_NUMBERS, .minimum = -1000, .maximum = 1000, .help = "Subtracted."},
    {.name = "std", .type = CONFIG_NUMBERS, .minimum = 0.001, .maximum = 1000, .fallback = 1, .help = "Divisor."},
};
static const struct config_parameter work[] = {
    {.name = "rounds", .type = CONFIG_INTEGER, .minimum = 1, .maximum = 1000, .fallback = 10, .help = "Times."},
};
static const struct config_parameter run[] = {
    {.name = "file", .type = CONFIG_PATH, .required = true, .help = "What runs."},
    {.name = "entry", .type = CONFIG_WORD, .help = "Where it begins."},
    {.name = "settings", .type = CONFIG_SETTINGS, .help = "What it is told."},
};
static const struct config_parameter model[] = {
    {.name = "name", .type = CONFIG_WORD, .help = "Which one."},
    {.name = "file", .type = CONFIG_PATH, .help = "Its file."},
    {.name = "shape", .type = CONFIG_SETTINGS, .help = "Of its inputs."},
};
static const struct config_stage_type stages[] = {
    {.name = "affine", .help = "Scales.", .parameters = affine, .parameter_count = 2},
    {.name = "convert", .help = "Converts.", .parameters = convert, .parameter_count = 2},
    {.name = "normalize", .help = "Normalizes.", .parameters = normalize, .parameter_count = 2},
    {.name = "work", .help = "Loads the device.", .parameters = work, .parameter_count = 1},
    {.name = "sobel", .help = "Finds edges."},
    {.name = "run", .help = "Runs a file.", .parameters = run, .parameter_count = 3},
    {.name = "model", .help = "Runs a model.", .parameters = model, .parameter_count = 3, .runs_model = true},
};

const struct config_vocabulary fixture_vocabulary = {
    .pixels = pixels, .dtypes = dtypes, .stages = stages, .stage_count = sizeof stages / sizeof stages[0]};
const struct config_hooks fixture_hooks = {.vocabulary = &fixture_vocabulary};

struct reading fixture_read_bytes(const char *text, size_t length) {
  struct reading reading = {.errors = config_errors_new(), .report = ""};
  ck_assert_ptr_nonnull(reading.errors);
  reading.config = config_parse("t.yaml", text, length, &fixture_hooks, reading.errors);
  ck_assert((reading.config != NULL) == (config_errors_count(reading.errors) == 0));
  if (!reading.config) {
    reading.report = config_errors_text(reading.errors);
  }
  return reading;
}

struct reading fixture_read(const char *text) {
  return fixture_read_bytes(text, strlen(text));
}

void fixture_end(struct reading *reading) {
  reading->config = config_free(reading->config);
  reading->errors = config_errors_free(reading->errors);
}

struct config *fixture_config(const char *text) {
  struct reading reading = fixture_read(text);
  ck_assert_msg(reading.config, "%s", reading.report);
  config_errors_free(reading.errors);
  return reading.config;
}

void fixture_check_mistake(const struct mistake *mistake) {
  struct reading reading = fixture_read(mistake->text);
  ck_assert_msg(strcmp(reading.report, mistake->report) == 0, "%s: expected\n%s\nand got\n%s", mistake->name, mistake->report,
                reading.report);
  fixture_end(&reading);
}
