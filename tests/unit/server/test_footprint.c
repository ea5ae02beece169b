/* What a configuration takes, and what is refused before it takes it. */
#include "daemon/base/log_text.h"
#include "daemon/server/footprint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/device/formats.h"
#include "tests/unit/runner.h"

static char path[64];
static struct config_errors *errors;
static struct config *config;

static void make_errors(void) { errors = config_errors_new(); }

static void clear(void) {
  config = config_free(config);
  errors = config_errors_free(errors);
}

/* Loads one pipeline with these keys of its source, these stages and this sink. */
static bool load(const char *source, const char *stages, const char *sink) {
  snprintf(path, sizeof path, "/tmp/framed-unit-XXXXXX");
  FILE *file = fdopen(mkstemp(path), "w");
  ck_assert_ptr_nonnull(file);
  fprintf(file, "status: {socket: /tmp/s}\npipelines:\n  cam0:\n    source: {socket: /tmp/a, %s}\n    stages: [%s]\n%s", source,
          stages, sink);
  fclose(file);
  config = footprint_load(path, errors);
  unlink(path);
  return config != NULL;
}

static const char to_socket[] = "    sink: {socket: /tmp/b}\n";

static bool report_has(const char *text) { return strstr(config_errors_text(errors), text) != NULL; }

START_TEST(a_pipeline_counts_all_its_clients) {
  ck_assert(load("format: {pixels: gray, width: 640, height: 480}", "", to_socket));
  struct footprint one, three;
  struct gpu_error error;
  ck_assert(footprint_of(config, &config->pipelines[0], &one, &error));
  config->pipelines[0].source.clients = 3;
  ck_assert(footprint_of(config, &config->pipelines[0], &three, &error));
  ck_assert_uint_ge(one.pinned_bytes, 2 * 2 * 640 * 480); /* two slots, each with input and output */
  ck_assert_uint_eq(three.pinned_bytes, 3 * one.pinned_bytes);
  ck_assert_uint_eq(three.device_bytes, 3 * one.device_bytes);
}
END_TEST

START_TEST(formats_go_through_the_stages) {
  ck_assert(load("format: {pixels: rgb24, width: 64, height: 48}", "convert: {to: gray}", to_socket));
  struct footprint footprint;
  struct gpu_error error;
  ck_assert(footprint_of(config, &config->pipelines[0], &footprint, &error));
  ck_assert_int_eq(footprint.input.pixels, PIXELS_RGB24);
  ck_assert_int_eq(footprint.output.pixels, PIXELS_GRAY);
}
END_TEST

START_TEST(stages_that_do_not_fit_are_an_error_at_their_line) {
  ck_assert(!load("format: {dtype: float32, shape: [5]}", "sobel: {}", to_socket));
  ck_assert(report_has(":5:"));
  ck_assert(report_has("pipeline 'cam0'"));
  ck_assert(report_has("sobel"));
}
END_TEST

START_TEST(y4m_carries_gray_and_planar_yuv_only) {
  static const char sink[] = "    sink: {socket: /tmp/b, protocol: y4m}\n";
  ck_assert(load("format: {pixels: yuv420p, width: 64, height: 48}", "", sink));
  config = config_free(config);
  ck_assert(!load("format: {pixels: rgb24, width: 64, height: 48}", "", sink));
  ck_assert(report_has("y4m does not carry rgb24 64x48"));
  ck_assert(report_has("convert"));
}
END_TEST

START_TEST(json_needs_a_meaning) {
  static const char sink[] = "    sink: {socket: /tmp/b, protocol: json}\n";
  ck_assert(load("format: {pixels: gray, width: 64, height: 48}", "stats: {}", sink));
  config = config_free(config);
  ck_assert(load("format: {pixels: gray, width: 64, height: 48}", "motion: {output: boxes}", sink));
  config = config_free(config);
  ck_assert(!load("format: {pixels: gray, width: 64, height: 48}", "motion: {}", sink));
  ck_assert(
      report_has("pipeline 'cam0' has results without a meaning, which json cannot write: the last stage gives gray 64x48"));
  ck_assert(report_has("end the stages with one such as stats, "));
}
END_TEST

START_TEST(a_y4m_source_is_held_to_the_same) {
  ck_assert(!load("format: {pixels: nv12, width: 64, height: 48}, protocol: y4m", "", to_socket));
  ck_assert(report_has("nv12"));
}
END_TEST

START_TEST(more_than_half_of_the_memory_is_refused) {
  ck_assert(!load("format: {dtype: float32, shape: [65536, 65536, 4]}", "", to_socket));
  ck_assert(report_has("half of this machine's memory"));
  ck_assert(report_has("fewer slots"));
}
END_TEST

START_TEST(recordings_that_the_memory_cannot_hold_are_refused) {
  static const char record[] = "    sink: {socket: /tmp/b}\n    record: {file: /tmp/c-%s.raw, memory: 900TiB}\n";
  ck_assert(!load("format: {pixels: gray, width: 64, height: 48}", "", record));
  ck_assert(report_has("the recording of pipeline 'cam0' takes 900.0 TiB of memory"));
}
END_TEST

START_TEST(bytes_are_described_in_units) {
  char text[BYTES_TEXT];
  ck_assert_str_eq(text_of_bytes(0, text), "0 bytes");
  ck_assert_str_eq(text_of_bytes(1023, text), "1023 bytes");
  ck_assert_str_eq(text_of_bytes(1536, text), "1.5 KiB");
  ck_assert_str_eq(text_of_bytes((size_t)3 << 30, text), "3.0 GiB");
  ck_assert_str_eq(text_of_bytes(SIZE_MAX, text), "16.0 EiB");
}
END_TEST

START_TEST(the_table_names_every_pipeline_and_the_sum) {
  ck_assert(load("format: {pixels: gray, width: 640, height: 480}", "", to_socket));
  char *table = NULL;
  size_t length;
  FILE *out = open_memstream(&table, &length);
  footprint_print(out, "some.yaml", config);
  fclose(out);
  ck_assert_ptr_nonnull(strstr(table, "some.yaml: configuration is valid"));
  ck_assert_ptr_nonnull(strstr(table, "cam0"));
  ck_assert_ptr_nonnull(strstr(table, "gray 640x480"));
  ck_assert_ptr_nonnull(strstr(table, "MiB"));
  ck_assert_ptr_nonnull(strstr(table, "together"));
  ck_assert_ptr_nonnull(strstr(table, "SLOW READERS"));
  ck_assert_ptr_nonnull(strstr(table, "18.8 MiB")); /* 64 results */
  free(table);
}
END_TEST

/* -- the words both sides use ------------------------------------------------------------------------------------ */

START_TEST(the_vocabulary_has_every_stage_and_format) {
  struct vocabulary *vocabulary = formats_new();
  const struct config_vocabulary *words = formats_words(vocabulary);
  unsigned wrong = 0;
  for (unsigned i = 0; i < words->stage_count; i++) {
    wrong += strcmp(words->stages[i].name, stage_abouts[i]->name) != 0;
    wrong += words->stages[i].parameter_count != stage_abouts[i]->parameter_count;
  }
  ck_assert_ptr_null(stage_abouts[words->stage_count]);
  for (unsigned i = 0; i + 1 < PIXELS_COUNT; i++) {
    const struct config_format format = {.pixels = i, .width = 1, .height = 1};
    wrong += strcmp(words->pixels[i], pixel_format_names[formats_format(&format).pixels]) != 0;
  }
  ck_assert_uint_eq(wrong, 0);
  ck_assert_ptr_null(words->pixels[PIXELS_COUNT - 1]);
  ck_assert_ptr_null(words->dtypes[ELEMENT_COUNT]);
  formats_free(vocabulary);
}
END_TEST

Suite *footprint_suite(void);
Suite *footprint_suite(void) {
  Suite *suite = suite_create("footprint");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, make_errors, clear);
  tcase_add_test(all, a_pipeline_counts_all_its_clients);
  tcase_add_test(all, formats_go_through_the_stages);
  tcase_add_test(all, stages_that_do_not_fit_are_an_error_at_their_line);
  tcase_add_test(all, y4m_carries_gray_and_planar_yuv_only);
  tcase_add_test(all, json_needs_a_meaning);
  tcase_add_test(all, a_y4m_source_is_held_to_the_same);
  tcase_add_test(all, more_than_half_of_the_memory_is_refused);
  tcase_add_test(all, recordings_that_the_memory_cannot_hold_are_refused);
  tcase_add_test(all, bytes_are_described_in_units);
  tcase_add_test(all, the_table_names_every_pipeline_and_the_sum);
  tcase_add_test(all, the_vocabulary_has_every_stage_and_format);
  suite_add_tcase(suite, all);
  return suite;
}
