/* What is read of a file of ONNX, whole, cut off, or made to deceive. */
#include "gpu/model/onnx_file.h"
#include "gpu/model/operators.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

static struct onnx_file file;
static char problem[ONNX_PROBLEM], bytes[1024];

static size_t load(const char *name) {
  char path[128];
  snprintf(path, sizeof path, "tests/data/models/%s.onnx", name);
  FILE *model = fopen(path, "rb");
  ck_assert_msg(model != NULL, "no %s", path);
  size_t count = fread(bytes, 1, sizeof bytes, model);
  fclose(model);
  ck_assert_uint_lt(count, sizeof bytes);
  return count;
}

static void read_model(const char *name) {
  size_t count = load(name);
  ck_assert_msg(onnx_file_read(bytes, count, &file, problem), "%s: %s", name, problem);
}

static bool is(struct onnx_text text, const char *other) {
  return text.length == strlen(other) && memcmp(text.text, other, text.length) == 0;
}

START_TEST(a_model_says_what_it_takes) {
  read_model("line");
  ck_assert_int_eq(file.ir_version, 8);
  ck_assert_int_eq(file.opset, 17);
  ck_assert_uint_eq(file.nodes, 2);
  ck_assert_uint_ge(file.weight_bytes, 8);
  ck_assert_uint_eq(file.input_count, 1);
  ck_assert(is(file.inputs[0].name, "x"));
  ck_assert_int_eq(file.inputs[0].type, 1);
  ck_assert_uint_eq(file.inputs[0].rank, 4);
  ck_assert_int_eq(file.inputs[0].shape[1], 3);
  ck_assert_uint_eq(file.file_count, 0);
}
END_TEST

START_TEST(sides_may_be_open_with_and_without_a_name) {
  read_model("open");
  const struct onnx_input *input = &file.inputs[0];
  ck_assert_int_eq(input->shape[0], -1);
  ck_assert(is(input->names[0], "batch"));
  ck_assert_int_eq(input->shape[1], 3);
  ck_assert_int_eq(input->shape[3], -1);
  ck_assert_uint_eq(input->names[3].length, 0);
}
END_TEST

START_TEST(weights_are_no_inputs_where_old_files_list_them) {
  read_model("old");
  ck_assert_uint_eq(file.input_count, 1);
  ck_assert(is(file.inputs[0].name, "x"));
}
END_TEST

START_TEST(weights_may_lie_in_a_file_beside_it) {
  read_model("beside");
  ck_assert_uint_eq(file.file_count, 1);
  ck_assert_str_eq(file.files[0], "beside.bin");
  ck_assert_uint_eq(file.file_bytes[0], 256);
}
END_TEST

START_TEST(operators_that_a_gpu_does_not_compute_are_noted) {
  char text[OPERATORS_TEXT];
  read_model("line");
  ck_assert_uint_eq(file.off_gpu, 0);
  read_model("stranger"); /* nobody knows what that one is */
  ck_assert_uint_eq(file.off_gpu, 0);
  read_model("off-gpu");
  ck_assert_str_eq(operators_describe(file.off_gpu, text), "`Mean`, `Tan`");
  ck_assert_uint_eq(operators_off_gpu(false, "Tanh", 4), 0);
  ck_assert_uint_eq(operators_off_gpu(false, "Loops", 5), 0);
  ck_assert_str_eq(operators_describe(operators_off_gpu(true, "Scaler", 6) | operators_off_gpu(false, "Loops", 4), text),
                   "`Loop`, those of `ai.onnx.ml`");
  ck_assert_str_eq(operators_describe(UINT64_MAX, text) + OPERATORS_TEXT - 1, ""); /* it ends */
}
END_TEST

/* The name of the file is replaced by another one of its length. */
START_TEST(weights_may_lie_nowhere_else) {
  static const char *const names[] = {"../eside.b", "/eside.bin", "a/side.bin", "beside.\0in"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    size_t count = load("beside");
    char *name = memmem(bytes, count, "beside.bin", 10);
    ck_assert_ptr_nonnull(name);
    memcpy(name, names[i], 10);
    ck_assert(!onnx_file_read(bytes, count, &file, problem));
    ck_assert_ptr_nonnull(strstr(problem, "not a file of its own folder"));
  }
}
END_TEST

START_TEST(a_file_that_is_cut_off_is_refused_or_read_within_its_end) {
  size_t count = load("several");
  for (size_t length = 0; length < count; length++) {
    char *part = malloc(length + 1); /* alone, so that a sanitizer sees its end */
    memcpy(part, bytes, length);
    ck_assert(!onnx_file_read(part, length, &file, problem) || file.input_count > 0 || length > 0);
    free(part);
  }
  ck_assert(!onnx_file_read(bytes, count / 2, &file, problem));
}
END_TEST

/* A graph in an attribute of a node of a graph, and so on. */
START_TEST(graphs_within_graphs_end_somewhere) {
  unsigned char nested[512];
  size_t at = sizeof nested, length = 0;
  static const unsigned char path[] = {0x32, 0x2A, 0x0A}; /* attribute's graph, node's attribute, graph's node */
  for (unsigned level = 0; level < 60; level++) {
    nested[--at] = (unsigned char)(length & 0x7F);
    if (length >= 0x80) {
      nested[at] |= 0;
      nested[at--] = (unsigned char)(length >> 7);
      nested[at] = (unsigned char)((length & 0x7F) | 0x80);
    }
    nested[--at] = path[level % 3];
    length = sizeof nested - at;
  }
  nested[--at] = (unsigned char)(length >> 7);
  nested[--at] = (unsigned char)((length & 0x7F) | 0x80);
  nested[--at] = 0x3A; /* the model's graph */
  ck_assert(!onnx_file_read(nested + at, sizeof nested - at, &file, problem));
  ck_assert_str_eq(problem, "its graphs lie too deep within each other");
}
END_TEST

START_TEST(other_bytes_are_no_model) {
  static const char *const texts[] = {"", "hello, world", "\x08\x08",
                                      ("\x7F"
                                       "ELF")};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    ck_assert(!onnx_file_read(texts[i], strlen(texts[i]), &file, problem));
    ck_assert_ptr_nonnull(strstr(problem, "not an ONNX model"));
  }
}
END_TEST

Suite *onnx_file_suite(void);
Suite *onnx_file_suite(void) {
  Suite *suite = suite_create("onnx file");
  TCase *tests = tcase_create("reading");
  tcase_add_test(tests, a_model_says_what_it_takes);
  tcase_add_test(tests, sides_may_be_open_with_and_without_a_name);
  tcase_add_test(tests, weights_are_no_inputs_where_old_files_list_them);
  tcase_add_test(tests, weights_may_lie_in_a_file_beside_it);
  tcase_add_test(tests, operators_that_a_gpu_does_not_compute_are_noted);
  tcase_add_test(tests, weights_may_lie_nowhere_else);
  tcase_add_test(tests, a_file_that_is_cut_off_is_refused_or_read_within_its_end);
  tcase_add_test(tests, graphs_within_graphs_end_somewhere);
  tcase_add_test(tests, other_bytes_are_no_model);
  suite_add_tcase(suite, tests);
  return suite;
}
