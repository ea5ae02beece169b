/* What --check says of paths whose directories are not there. */
#include "daemon/server/config_files.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

static char there[] = "/tmp/framed.sock", nowhere[] = "/tmp/framed-unit-nowhere/it", below_file[] = "/dev/null/it",
            standard[] = "-", new_file[] = "/tmp/framed-unit-nothing-yet", file_name[] = "some.yaml";

static struct config_pipeline pipeline;
static struct config config;
static char *text;

static void make(void) {
  pipeline = (struct config_pipeline){.source = {.endpoint = CONFIG_SOCKET, .path = there},
                                      .sink = {.endpoint = CONFIG_SOCKET, .path = there}};
  config = (struct config){.status.socket = there, .pipelines = &pipeline, .pipeline_count = 1};
  text = NULL;
}

static void clear(void) { free(text); }

static void print(void) {
  size_t length;
  FILE *out = open_memstream(&text, &length);
  config_files_print_missing(out, &config);
  fclose(out);
}

START_TEST(nothing_is_said_of_what_is_there) {
  print();
  ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(the_line_and_a_remedy_are_said) {
  pipeline.source.path = nowhere;
  pipeline.source.path_at = (struct config_mark){.file = file_name, .line = 7, .column = 15};
  print();
  ck_assert_str_eq(text, "some.yaml:7:15: note: the directory of the socket '/tmp/framed-unit-nowhere/it' does not exist\n"
                         "  create it before the start, or let systemd do so with RuntimeDirectory=\n");
}
END_TEST

START_TEST(a_default_has_no_line) {
  config.status.socket = below_file;
  print();
  ck_assert_ptr_eq(strstr(text, "note: the directory of the socket '/dev/null/it'"), text);
}
END_TEST

START_TEST(a_sink_makes_its_file_but_no_directory) {
  pipeline.sink = (struct config_sink){.endpoint = CONFIG_FILE, .path = new_file};
  print();
  ck_assert_str_eq(text, "");
  clear();
  pipeline.sink.path = nowhere;
  print();
  ck_assert_ptr_nonnull(strstr(text, "the directory of the sink's file '/tmp/framed-unit-nowhere/it' does not exist"));
}
END_TEST

START_TEST(a_source_makes_no_file) {
  pipeline.source = (struct config_source){.endpoint = CONFIG_FILE, .path = new_file};
  print();
  ck_assert_ptr_nonnull(strstr(text, "the source file '/tmp/framed-unit-nothing-yet' does not exist"));
}
END_TEST

START_TEST(standard_input_and_output_and_replies_need_no_path) {
  pipeline.source = (struct config_source){.endpoint = CONFIG_FILE, .path = standard};
  pipeline.sink = (struct config_sink){.endpoint = CONFIG_FILE, .path = standard};
  print();
  ck_assert_str_eq(text, "");
  clear();
  pipeline.sink = (struct config_sink){.endpoint = CONFIG_REPLY};
  print();
  ck_assert_str_eq(text, "");
}
END_TEST

Suite *config_files_suite(void);
Suite *config_files_suite(void) {
  Suite *suite = suite_create("config_files");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, make, clear);
  tcase_add_test(all, nothing_is_said_of_what_is_there);
  tcase_add_test(all, the_line_and_a_remedy_are_said);
  tcase_add_test(all, a_default_has_no_line);
  tcase_add_test(all, a_sink_makes_its_file_but_no_directory);
  tcase_add_test(all, a_source_makes_no_file);
  tcase_add_test(all, standard_input_and_output_and_replies_need_no_path);
  suite_add_tcase(suite, all);
  return suite;
}
