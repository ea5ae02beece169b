/* Models: what a stage runs, what is refused, and when two are the same. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/config/fixture.h"

#define MODELS(models, stages) "models:\n" models PIPELINE("    stages: [" stages "]\n")

static const struct mistake mistakes[] = {
    {"unknown model", MODELS("  person: {file: a}\n", "model: {name: persn}"),
     "t.yaml:7:14: unknown model 'persn' in pipeline 'cam0'\n"
     "    stages: [model: {name: persn}]\n"
     "             ^~~~~\n"
     "  did you mean 'person'?\n"},
    {"model like none", MODELS("  person: {file: a}\n  face: {file: b}\n", "model: {name: zzz}"),
     "t.yaml:8:14: unknown model 'zzz' in pipeline 'cam0'\n"
     "    stages: [model: {name: zzz}]\n"
     "             ^~~~~\n"
     "  models are person, face\n"},
    {"name where there are no models", PIPELINE("    stages: [model: {name: person}]\n"),
     "t.yaml:5:14: unknown model 'person' in pipeline 'cam0'\n"
     "    stages: [model: {name: person}]\n"
     "             ^~~~~\n"
     "  name it under `models:` with its file, or give the stage a `file`\n"},
    {"name and file", MODELS("  a: {file: a}\n", "model: {name: a, file: b}"),
     "t.yaml:7:14: 'name' and 'file' exclude each other in a stage of pipeline 'cam0'\n"
     "    stages: [model: {name: a, file: b}]\n"
     "             ^~~~~\n"
     "  keep one of the two\n"},
    {"no model", PIPELINE("    stages: [model]\n"),
     "t.yaml:5:14: a stage of pipeline 'cam0' names no model\n"
     "    stages: [model]\n"
     "             ^~~~~\n"
     "  write {name: NAME} with a name of `models`, or {file: FILE}\n"},
    {"model without a file", MODELS("  person: {instances: 1}\n", "model: {name: person}"),
     "t.yaml:2:3: model 'person' needs 'file'\n"
     "    person: {instances: 1}\n"
     "    ^~~~~~\n"
     "  The model, an ONNX file. After the file is replaced, the next reload uses the new one.\n"},
    {"unknown key", MODELS("  person: {file: a, instnces: 1}\n", "sobel"),
     "t.yaml:2:21: unknown key 'instnces' in model 'person'\n"
     "    person: {file: a, instnces: 1}\n"
     "                      ^~~~~~~~\n"
     "  did you mean 'instances'?\n"},
    {"a model beside it", MODELS("  person: {file: a, shadow: {file: b}}\n", "sobel"),
     "t.yaml:2:21: the key 'shadow' was removed\n"
     "    person: {file: a, shadow: {file: b}}\n"
     "                      ^~~~~~\n"
     "  compare two models on a recording: framectl replay RECORDING --against NEW.yaml\n"},
    {"batches of no size", MODELS("  a: {file: a, batch: {wait: 2}}\n", "sobel"),
     "t.yaml:2:23: 'batch' of model 'a' needs 'most'\n"
     "    a: {file: a, batch: {wait: 2}}\n"
     "                        ^\n"
     "  Frames in a batch, at most. The first side of the model's input must be open or have that size. 1: no batches, frames "
     "only queue.\n"
     "t.yaml:2:30: 'wait' needs a unit\n"
     "    a: {file: a, batch: {wait: 2}}\n"
     "                               ^\n"
     "  write for example 2ms or 2s; units are ns us ms s min h d\n"},
    {"a frame that waits as long as one that hangs",
     MODELS("  a: {file: a, batch: {most: 2, wait: 1s}}\ngpu: {timeout: 1s}\n", "sobel"),
     "t.yaml:2:3: batches of model 'a' wait for 1s, which must be at most half of gpu.timeout (1s)\n"
     "    a: {file: a, batch: {most: 2, wait: 1s}}\n"
     "    ^\n"
     "  give it a shorter one, or raise gpu.timeout\n"},
    {"name of a model", MODELS("  a b: {file: a}\n", "sobel"),
     "t.yaml:2:3: 'a b' is not a name for a model\n"
     "    a b: {file: a}\n"
     "    ^\n"
     "  use 1 to 64 letters, digits, '_', '-' and '.'\n"},
    {"too many instances, and too little memory", MODELS("  a: {file: a, instances: 65, memory: 1KiB}\n", "sobel"),
     "t.yaml:2:27: 'instances' must be between 1 and 64, not 65\n"
     "    a: {file: a, instances: 65, memory: 1KiB}\n"
     "                            ^~\n"
     "t.yaml:2:39: 'memory' must be between 1MiB and 1024TiB, not 1KiB\n"
     "    a: {file: a, instances: 65, memory: 1KiB}\n"
     "                                        ^~~~\n"},
    {"precision", MODELS("  a: {file: a, precision: tf23}\n", "sobel"),
     "t.yaml:2:27: 'precision' must be one of: tf32, float32, not 'tf23'\n"
     "    a: {file: a, precision: tf23}\n"
     "                            ^~~~\n"
     "  did you mean 'tf32'?\n"},
    {"shape that is a list", MODELS("  a: {file: a, shape: [1, 3]}\n", "sobel"),
     "t.yaml:2:23: 'shape' must be a mapping of inputs to their sizes, not a list\n"
     "    a: {file: a, shape: [1, 3]}\n"
     "                        ^\n"
     "  write it as {images: [1, 3, 640, 640]}, with the name of the input\n"},
    {"sides that are no list", MODELS("  a: {file: a, shape: {x: 3}}\n", "sobel"),
     "t.yaml:2:27: the shape of 'x' must be a list of sizes, not '3'\n"
     "    a: {file: a, shape: {x: 3}}\n"
     "                            ^\n"
     "  write it in brackets: [1, 3, 640, 640]\n"},
    {"side of nothing", MODELS("  a: {file: a, shape: {x: [1, 0]}}\n", "sobel"),
     "t.yaml:2:31: a size of 'x' must be between 1 and 1099511627776, not 0\n"
     "    a: {file: a, shape: {x: [1, 0]}}\n"
     "                                ^\n"},
    {"too many sides", MODELS("  a: {file: a, shape: {x: [1, 1, 1, 1, 1, 1, 1, 1, 1]}}\n", "sobel"),
     "t.yaml:2:52: the shape of 'x' has more than 8 sizes\n"
     "    a: {file: a, shape: {x: [1, 1, 1, 1, 1, 1, 1, 1, 1]}}\n"
     "                                                     ^\n"},
    {"shape of a stage that names a model", MODELS("  a: {file: a}\n", "model: {name: a, shape: {x: [1]}}"),
     "t.yaml:7:14: 'shape' goes only with 'file' in a stage of pipeline 'cam0'\n"
     "    stages: [model: {name: a, shape: {x: [1]}}]\n"
     "             ^~~~~\n"
     "  give it under `models:`\n"},
    {"half a side", PIPELINE("    stages: [model: {file: a, shape: {x: [1, 2.5]}}]\n"),
     "t.yaml:5:14: the shape of 'x' must be a list of sizes in pipeline 'cam0'\n"
     "    stages: [model: {file: a, shape: {x: [1, 2.5]}}]\n"
     "             ^~~~~\n"
     "  write for example {images: [1, 3, 640, 640]}\n"},
};

START_TEST(a_mistake_gets_its_report) { fixture_check_mistake(&mistakes[_i]); }
END_TEST

START_TEST(a_stage_has_the_model_that_it_names) {
  struct config *config = fixture_config(MODELS("  a: {file: /a.onnx}\n  b: {file: b.onnx, instances: 5, shape: {x: [1, 9]}}\n",
                                                "model: {name: b}, model: {file: c.onnx, shape: {y: [7]}}, sobel"));
  const struct config_stage *stages = config->pipelines[0].stages;
  ck_assert_str_eq(stages[0].model->name, "b");
  ck_assert_str_eq(stages[0].model->file, "b.onnx");
  ck_assert_uint_eq(stages[0].model->instances, 5);
  ck_assert_str_eq(stages[0].model->shapes[0].input, "x");
  ck_assert_int_eq(stages[0].model->shapes[0].sides[1], 9);
  ck_assert_ptr_null(stages[1].model->name);
  ck_assert_str_eq(stages[1].model->file, "c.onnx");
  ck_assert_uint_eq(stages[1].model->instances, 2);
  ck_assert_int_eq(stages[1].model->shapes[0].sides[0], 7);
  ck_assert_ptr_null(stages[2].model);
  ck_assert(!config_is_run(config, config->models[0]));
  ck_assert(config_is_run(config, config->models[1]));
  config_free(config);
}
END_TEST

START_TEST(models_of_the_same_file_and_keys_have_equal_texts) {
  struct config *config = fixture_config(
      MODELS("  a: {file: x}\n  b: {file: x, instances: 2}\n  c: {file: x, instances: 3}\n", "model: {file: x}"));
  ck_assert_str_eq(config->models[0]->text, config->models[1]->text);
  ck_assert_str_ne(config->models[0]->text, config->models[2]->text);
  ck_assert_str_eq(config->models[0]->text, config->models[3]->text);
  config_free(config);
}
END_TEST

static bool find_contents(struct config_model *model, struct config_errors *errors, void *context) {
  (void)errors;
  model->contents = *(const uint64_t *)context;
  return true;
}

/* The text of a pipeline with a model in whose file that was found. */
static void text_with(uint64_t contents, char text[2048]) {
  const char *yaml = MODELS("  a: {file: x}\n", "model: {name: a}");
  const struct config_hooks hooks = {.vocabulary = &fixture_vocabulary, .open = find_contents, .context = &contents};
  struct config_errors *errors = config_errors_new();
  struct config *config = config_parse("t.yaml", yaml, strlen(yaml), &hooks, errors);
  ck_assert_ptr_nonnull(config);
  snprintf(text, 2048, "%s", config->pipelines[0].text);
  ck_assert_ptr_null(strstr(config->pipelines[0].ends, "model"));
  config_free(config);
  config_errors_free(errors);
}

START_TEST(other_contents_of_its_file_make_another_pipeline) {
  char first[2048], again[2048], other[2048];
  text_with(1, first);
  text_with(1, again);
  text_with(2, other);
  ck_assert_str_eq(first, again);
  ck_assert_str_ne(first, other);
}
END_TEST

START_TEST(another_instance_count_makes_another_pipeline) {
  struct config *two = fixture_config(MODELS("  a: {file: x}\n", "model: {name: a}"));
  struct config *three = fixture_config(MODELS("  a: {file: x, instances: 3}\n", "model: {name: a}"));
  ck_assert_str_ne(two->pipelines[0].text, three->pipelines[0].text);
  config_free(two);
  config_free(three);
}
END_TEST

Suite *models_suite(void);
Suite *models_suite(void) {
  Suite *suite = suite_create("models");
  TCase *all = tcase_create("all");
  tcase_add_loop_test(all, a_mistake_gets_its_report, 0, sizeof mistakes / sizeof mistakes[0]);
  tcase_add_test(all, a_stage_has_the_model_that_it_names);
  tcase_add_test(all, models_of_the_same_file_and_keys_have_equal_texts);
  tcase_add_test(all, other_contents_of_its_file_make_another_pipeline);
  tcase_add_test(all, another_instance_count_makes_another_pipeline);
  suite_add_tcase(suite, all);
  return suite;
}
