/*
 * Models opened and run on the CPU, and refused. Without ONNX Runtime (FRAMED_ONNXRUNTIME, which the Makefile sets where
 * tools/setup.sh has fetched it) only what is refused without it is tested.
 */
#include "gpu/model/model.h"
#include "gpu/model/onnxruntime.h"
#include "gpu/model/parts.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static struct gpu_error error;

static struct model *open_with(const char *name, const struct model_shape *shape) {
  char path[128];
  snprintf(path, sizeof path, "tests/data/models/%s.onnx", name);
  const struct model_settings settings = {.file = path, .shapes = shape, .shape_count = shape != NULL};
  return model_open(&settings, &error);
}

static struct model *open_model(const char *name) {
  struct model *model = open_with(name, NULL);
  ck_assert_msg(model != NULL, "%s: %s", name, error.text);
  return model;
}

static const char *describe(const struct model_tensor *tensor) {
  static char text[FORMAT_TEXT];
  return format_describe(&tensor->format, text);
}

static void run_model(const struct model *model, const void *input, void *output, int chosen) {
  ck_assert_msg(model_run(model, input, output, chosen, &error), "%s", error.text);
}

/* -- with the runtime --------------------------------------------------------------------------------------------------- */

START_TEST(a_model_computes) {
  struct model *model = open_model("line");
  struct model_summary summary;
  float in[60], out[60];
  for (int i = 0; i < 60; i++) {
    in[i] = (float)i;
  }
  ck_assert_str_eq(describe(model_input(model)), "float32[1,3,4,5]");
  ck_assert_str_eq(describe(model_output(model, 0)), "float32[1,3,4,5]");
  run_model(model, in, out, 0);
  for (int i = 0; i < 60; i++) {
    ck_assert_float_eq(out[i], 2 * (float)i + 1);
  }
  model_summary(model, &summary);
  ck_assert_int_eq(summary.opset, 17);
  ck_assert_uint_eq(summary.instances, MODEL_INSTANCES);
  ck_assert_uint_ge(summary.threads, 1);
  model_release(model);
}
END_TEST

START_TEST(open_sides_are_given) {
  const struct model_shape shape = {.input = "x", .rank = 4, .sides = {2, 3, 2, 2}};
  struct model *model = open_with("open", &shape);
  float in[24] = {[23] = 8}, out[24];
  ck_assert_msg(model != NULL, "%s", error.text);
  ck_assert_str_eq(describe(model_output(model, 0)), "float32[2,3,2,2]");
  run_model(model, in, out, 0);
  ck_assert_float_eq(out[23], 17);
  model_release(model);
}
END_TEST

START_TEST(every_type_of_frames_passes) {
  static const char *const names[] = {"uint8", "float16", "int32", "int64"};
  static const size_t bytes[] = {6, 12, 24, 48};
  for (size_t i = 0; i < 4; i++) {
    struct model *model = open_model(names[i]);
    char in[48] = "The bytes of six numbers, whatever type they are", out[48] = "", text[FORMAT_TEXT];
    snprintf(text, sizeof text, "%s[1,6]", names[i]);
    ck_assert_str_eq(describe(model_input(model)), text);
    ck_assert_uint_eq(model_output(model, 0)->bytes, bytes[i]);
    run_model(model, in, out, 0);
    ck_assert_mem_eq(in, out, bytes[i]);
    model_release(model);
  }
}
END_TEST

START_TEST(of_several_outputs_one_or_all_are_given) {
  struct model *model = open_model("several");
  const float in[6] = {1, 2, 3, 4, 5, 6};
  float sum = 0, halves[6];
  struct parts parts;
  unsigned char all[2048];
  ck_assert_uint_eq(model_output_count(model), 2);
  ck_assert_int_eq(model_find_output(model, "halves"), 1);
  ck_assert_int_eq(model_find_output(model, "thirds"), MODEL_ALL);
  run_model(model, in, &sum, 0);
  ck_assert_float_eq(sum, 21);
  run_model(model, in, halves, 1);
  ck_assert_float_eq(halves[5], 3);
  run_model(model, in, all, MODEL_ALL);
  memcpy(&parts, all, sizeof parts);
  ck_assert_mem_eq(parts.magic, PARTS_MAGIC, sizeof parts.magic);
  ck_assert_uint_eq(parts.count, 2);
  ck_assert_uint_eq(parts.parts[1].rank, 2);
  ck_assert_uint_eq(parts.parts[1].shape[1], 3);
  ck_assert_uint_eq(parts.parts[1].offset % PARTS_ALIGNMENT, 0);
  ck_assert_mem_eq(all + parts.parts[0].offset, &sum, sizeof sum);
  ck_assert_mem_eq(all + parts.parts[1].offset, halves, sizeof halves);
  model_release(model);
}
END_TEST

START_TEST(weights_beside_the_file_are_used) {
  struct model *model = open_model("beside");
  float in[64] = {[63] = 1}, out[64];
  run_model(model, in, out, 0);
  ck_assert_float_eq(out[62], 62);
  ck_assert_float_eq(out[63], 64);
  model_release(model);
}
END_TEST

START_TEST(leading_sides_of_one_are_left_out) {
  struct model *model = open_model("wide");
  ck_assert_str_eq(describe(model_input(model)), "float32[2,3,4,5]");
  ck_assert_uint_eq(model_input(model)->rank, 6);
  model_release(model);
}
END_TEST

static void *run_often(void *model) {
  for (int i = 0; i < 200; i++) {
    float in[60] = {[59] = (float)i}, out[60];
    run_model(model, in, out, 0);
    ck_assert_float_eq(out[59], 2 * (float)i + 1);
  }
  return NULL;
}

START_TEST(threads_run_it_at_once) {
  struct model *model = open_model("line");
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, run_often, model), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
  }
  model_release(model);
}
END_TEST

START_TEST(a_run_that_fails_says_why) {
  struct model *model = open_model("lookup");
  const int64_t good[4] = {1, 2, 3, 4}, bad[4] = {1, 2, 3, 400};
  float out[4];
  run_model(model, good, out, 0);
  ck_assert_float_eq(out[3], 4);
  ck_assert(!model_run(model, bad, out, 0, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "400"));
  ck_assert_ptr_null(strstr(error.text, ".cc"));
  run_model(model, good, out, 0);
  model_release(model);
}
END_TEST

START_TEST(it_lives_while_somebody_holds_it) {
  struct model *model = open_model("line");
  ck_assert_ptr_eq(model_hold(model), model);
  model_release(model);
  run_often(model);
  model_release(model);
}
END_TEST

START_TEST(who_asks_for_the_same_gets_the_same) {
  const struct model_shape shapes[] = {{.input = "x", .rank = 4, .sides = {1, 3, 2, 2}},
                                       {.input = "x", .rank = 4, .sides = {1, 3, 2, 3}}};
  struct model *one = open_with("open", &shapes[0]), *same = open_with("open", &shapes[0]),
               *other = open_with("open", &shapes[1]);
  ck_assert_ptr_nonnull(one);
  ck_assert_ptr_eq(one, same);
  ck_assert_ptr_ne(one, other);
  model_release(one);
  model_release(other);
  ck_assert_str_eq(describe(model_input(same)), "float32[1,3,2,2]");
  model_release(same);
}
END_TEST

struct refusal {
  const char *name, *text, *remedy;
};

static void check_refusal(const struct refusal *refusal) {
  struct model *model = open_with(refusal->name, NULL);
  ck_assert_msg(!model, "%s was opened", refusal->name);
  ck_assert_msg(strstr(error.text, refusal->text) != NULL, "%s: %s", refusal->name, error.text);
  ck_assert_msg(strstr(error.remedy, refusal->remedy) != NULL, "%s: %s", refusal->name, error.remedy);
}

START_TEST(the_runtime_refuses_in_our_words) {
  static const struct refusal refusals[] = {
      {"unknown", "uses an operator `Froobnicate`", "standard operators"},
      {"too-new", "too new, with opset 99 of ai.onnx: ONNX Runtime", "earlier opset"},
      {"too-new-file", "too new, with IR version 99: ONNX Runtime", "earlier opset"},
      {"stranger", "uses an operator `com.example:Twist`", "standard operators"},
      {"later", "uses an operator `Gelu` that opset 17 of ONNX Runtime", "an opset that has it"},
  };
  check_refusal(&refusals[_i]);
}
END_TEST

/* -- without -------------------------------------------------------------------------------------------------------------- */

START_TEST(what_a_stage_cannot_take_is_refused) {
  static const struct refusal refusals[] = {
      {"nothing", "No such file", ""},
      {"open", "is [batch?, 3, height?, ?]", "`shape: {x: [1, 3, 640, 640]}`"},
      {"two-inputs", "has 2 inputs: x, z", "constants"},
      {"float64", "is of float64", "float32"},
      {"deep", "has 5 sides", "reshape"},
  };
  check_refusal(&refusals[_i]);
}
END_TEST

START_TEST(a_shape_must_be_the_files) {
  const struct model_shape wrong[] = {{.input = "z", .rank = 4, .sides = {1, 3, 2, 2}},
                                      {.input = "x", .rank = 3, .sides = {3, 2, 2}},
                                      {.input = "x", .rank = 4, .sides = {1, 4, 2, 2}}};
  for (int i = 0; i < 3; i++) {
    ck_assert_ptr_null(open_with("open", &wrong[i]));
    ck_assert_ptr_nonnull(strstr(error.text, i == 0 ? "`z`, which it does not have" : "the shape that is given has another"));
  }
}
END_TEST

START_TEST(only_files_are_read) {
  char folder[] = "/tmp/framed-model-XXXXXX", fifo[64];
  const char *const places[] = {folder, "/dev/zero", fifo};
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(fifo, sizeof fifo, "%s/fifo", folder);
  ck_assert_int_eq(mkfifo(fifo, 0600), 0);
  for (int i = 0; i < 3; i++) {
    const struct model_settings settings = {.file = places[i]};
    ck_assert_ptr_null(model_open(&settings, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "is not a file"));
  }
  unlink(fifo);
  rmdir(folder);
}
END_TEST

START_TEST(texts_of_the_runtime_lose_what_says_nothing) {
  static const char *const texts[][2] = {
      {"Failed to load model with error: /src/core/graph/model.cc:180 one::Model::Model(int&&, const std::vector<int>&) "
       "Unsupported "
       "version: 99.",
       "Failed to load model with error: Unsupported version: 99"},
      {"CUDA failure 700: an illegal memory access ; GPU=0 ; hostname=somewhere ; file=/a/b.cc ; line=3",
       "CUDA failure 700: an "
       "illegal memory access ; GPU=0"},
      {"/a/b.h:46 void f(const X&) [with T = int] cond was false", "cond was false"},
      {"Load: [ONNXRuntimeError] : 1 : FAIL : no such option", "Load: no such option"},
      {"plain words", "plain words"},
      {".cc:", ""},
      {"a.cc:1 (((", "((("},
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char text[256];
    snprintf(text, sizeof text, "%s", texts[i][0]);
    onnxruntime_trim(text);
    ck_assert_str_eq(text, texts[i][1]);
  }
}
END_TEST

Suite *model_suite(void);
Suite *model_suite(void) {
  Suite *suite = suite_create("model");
  TCase *without = tcase_create("without the runtime");
  tcase_add_loop_test(without, what_a_stage_cannot_take_is_refused, 0, 5);
  tcase_add_test(without, a_shape_must_be_the_files);
  tcase_add_test(without, only_files_are_read);
  tcase_add_test(without, texts_of_the_runtime_lose_what_says_nothing);
  suite_add_tcase(suite, without);
  if (!getenv("FRAMED_ONNXRUNTIME")) {
    puts("model: left out: models that run, since FRAMED_ONNXRUNTIME names no ONNX Runtime");
    return suite;
  }
  TCase *with = tcase_create("with the runtime");
  tcase_add_test(with, a_model_computes);
  tcase_add_test(with, open_sides_are_given);
  tcase_add_test(with, every_type_of_frames_passes);
  tcase_add_test(with, of_several_outputs_one_or_all_are_given);
  tcase_add_test(with, weights_beside_the_file_are_used);
  tcase_add_test(with, leading_sides_of_one_are_left_out);
  tcase_add_test(with, threads_run_it_at_once);
  tcase_add_test(with, a_run_that_fails_says_why);
  tcase_add_test(with, it_lives_while_somebody_holds_it);
  tcase_add_test(with, who_asks_for_the_same_gets_the_same);
  tcase_add_loop_test(with, the_runtime_refuses_in_our_words, 0, 5);
  suite_add_tcase(suite, with);
  return suite;
}
