/* Configurations from files: the main one, drop-ins beside it, and what cannot be read. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/yaml.h"
#include "tests/unit/config/fixture.h"

static char folder[64];

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/tmp/framed-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  ck_assert_int_eq(chdir(folder), 0);
}

static void remove_folder(void) {
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  ck_assert_int_eq(chdir("/"), 0);
  ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  ck_assert_int_eq(fclose(file), 0);
}

static struct reading load(const char *path) {
  struct reading reading = {.errors = config_errors_new(), .report = ""};
  reading.config = config_load(path, &fixture_hooks, reading.errors);
  ck_assert((reading.config != NULL) == (config_errors_count(reading.errors) == 0));
  reading.report = reading.config ? "" : config_errors_text(reading.errors);
  return reading;
}

static void expect(const char *path, const char *report) {
  struct reading reading = load(path);
  ck_assert_str_eq(reading.report, report);
  fixture_end(&reading);
}

START_TEST(a_file_alone_is_read) {
  write_file("main.yaml", PIPELINE(""));
  expect("main.yaml", "");
}
END_TEST

static const char *stage_file(const struct reading *reading, const char *pipeline) {
  for (unsigned i = 0; i < reading->config->pipeline_count; i++) {
    if (strcmp(reading->config->pipelines[i].name, pipeline) == 0) {
      return reading->config->pipelines[i].stages[0].values[0].text;
    }
  }
  return NULL;
}

START_TEST(files_of_stages_begin_at_the_folder_of_their_configuration) {
  mkdir("etc", 0700);
  mkdir("etc/conf.d", 0700);
  write_file("etc/main.yaml", PIPELINE("    stages: [run: {file: /opt/x.so}]\n"));
  write_file("etc/conf.d/b.yaml",
             "pipelines: {rear: {source: {socket: r, " FORMAT "}, stages: [run: {file: x.so}], sink: {socket: r2}}}\n");
  struct reading reading = load("etc/main.yaml");
  ck_assert_str_eq(reading.report, "");
  ck_assert_str_eq(stage_file(&reading, "cam0"), "/opt/x.so");
  ck_assert_str_eq(stage_file(&reading, "rear"), "etc/conf.d/x.so");
  fixture_end(&reading);
}
END_TEST

START_TEST(drop_ins_add_and_override_in_the_order_of_their_names) {
  write_file("main.yaml", "lanes: 1\nlog: {level: debug}\ngpu: {device: 1, timeout: 3s}\n" PIPELINE(""));
  mkdir("conf.d", 0700);
  write_file("conf.d/20.yaml", "lanes: 20\nstatus: {socket: late}\n");
  write_file("conf.d/10.yaml", "lanes: 10\nstatus: {socket: early}\ngpu: {device: 4}\n");
  write_file("conf.d/rear.yaml", "pipelines: {rear: {source: {socket: r, " FORMAT "}, sink: {socket: r2}}}\n");
  struct reading reading = load("main.yaml");
  ck_assert_str_eq(reading.report, "");
  ck_assert_uint_eq(reading.config->lanes, 20);
  ck_assert_str_eq(reading.config->status.socket, "late");
  ck_assert_int_eq(reading.config->log_level, CONFIG_LOG_DEBUG);
  ck_assert_int_eq(reading.config->gpu.timeout_ns, 3000000000);
  ck_assert_uint_eq(reading.config->pipeline_count, 2);
  ck_assert_str_eq(reading.config->pipelines[1].name, "rear");
  ck_assert_str_eq(reading.config->pipelines[1].at.file, "conf.d/rear.yaml");
  ck_assert_uint_eq(reading.config->pipelines[0].device, 4);
  fixture_end(&reading);
}
END_TEST

START_TEST(the_folder_is_beside_the_file) {
  mkdir("etc", 0700);
  mkdir("etc/conf.d", 0700);
  write_file("etc/main.yaml", PIPELINE(""));
  write_file("etc/conf.d/a.yaml", "lanes: 9\n");
  struct reading reading = load("etc/main.yaml");
  ck_assert_str_eq(reading.report, "");
  ck_assert_uint_eq(reading.config->lanes, 9);
  fixture_end(&reading);
}
END_TEST

START_TEST(pipelines_may_be_in_drop_ins_alone) {
  write_file("main.yaml", "");
  mkdir("conf.d", 0700);
  write_file("conf.d/a.yaml", PIPELINE(""));
  expect("main.yaml", "");
}
END_TEST

START_TEST(other_files_in_the_folder_are_not_read) {
  write_file("main.yaml", PIPELINE(""));
  mkdir("conf.d", 0700);
  write_file("conf.d/.hidden.yaml", "nonsense");
  write_file("conf.d/a.yaml~", "nonsense");
  write_file("conf.d/a.yml", "nonsense");
  write_file("conf.d/a.yaml.dpkg-old", "nonsense");
  write_file("conf.d/.yaml", "nonsense");
  expect("main.yaml", "");
}
END_TEST

START_TEST(a_pipeline_twice_names_both_places) {
  write_file("main.yaml", PIPELINE(""));
  mkdir("conf.d", 0700);
  write_file("conf.d/a.yaml", "pipelines:\n  cam0: {source: {socket: x, " FORMAT "}, sink: {socket: y}}\n");
  expect("main.yaml", "conf.d/a.yaml:2:3: pipeline 'cam0' is defined twice; the first is at main.yaml:2:3\n"
                      "    cam0: {source: {socket: x, " FORMAT "}, sink: {socket: y}}\n"
                      "    ^~~~\n"
                      "  remove or rename one of the two\n");
}
END_TEST

START_TEST(errors_of_all_files_come_in_one_report) {
  write_file("main.yaml", "lanes: x\n" PIPELINE(""));
  mkdir("conf.d", 0700);
  write_file("conf.d/b.yaml", "lanes: y\nlog: {levl: info}\n");
  write_file("conf.d/a.yaml", "[");
  struct reading reading = load("main.yaml");
  const char *first = strstr(reading.report, "main.yaml:1:8:");
  const char *second = strstr(reading.report, "conf.d/a.yaml:");
  const char *third = strstr(reading.report, "conf.d/b.yaml:1:8:");
  const char *fourth = strstr(reading.report, "conf.d/b.yaml:2:7:");
  ck_assert_msg(first && second && third && fourth, "%s", reading.report);
  ck_assert(first < second && second < third && third < fourth);
  ck_assert_uint_eq(config_errors_count(reading.errors), 4);
  fixture_end(&reading);
}
END_TEST

START_TEST(a_missing_file_is_named_with_a_remedy) {
  expect("nothing.yaml", "nothing.yaml: cannot read it: No such file or directory\n"
                         "  name another file with -c FILE\n");
}
END_TEST

START_TEST(an_example_is_offered_in_its_place) {
  const struct config_hooks hooks = {.vocabulary = &fixture_vocabulary, .example = "/usr/share/example.yaml"};
  struct config_errors *errors = config_errors_new();
  ck_assert_ptr_null(config_load("nothing.yaml", &hooks, errors));
  ck_assert_ptr_nonnull(strstr(config_errors_text(errors), "commented example, /usr/share/example.yaml\n"));
  config_errors_free(errors);
}
END_TEST

START_TEST(a_folder_is_no_file) {
  mkdir("main.yaml", 0700);
  expect("main.yaml", "main.yaml: cannot read it: Is a directory\n  name the file in that directory\n");
}
END_TEST

START_TEST(a_file_where_the_folder_should_be_is_an_error) {
  write_file("main.yaml", PIPELINE(""));
  write_file("conf.d", "");
  expect("main.yaml", "conf.d: cannot read it: Not a directory\n");
}
END_TEST

START_TEST(a_drop_in_that_leads_nowhere_is_an_error) {
  write_file("main.yaml", PIPELINE(""));
  mkdir("conf.d", 0700);
  ck_assert_int_eq(symlink("nowhere", "conf.d/a.yaml"), 0);
  struct reading reading = load("main.yaml");
  ck_assert_ptr_nonnull(strstr(reading.report, "conf.d/a.yaml: cannot read it: No such file or directory"));
  fixture_end(&reading);
}
END_TEST

/* A comment of so many bytes behind a whole configuration. */
static void write_long_file(const char *path, size_t bytes) {
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  for (size_t written = (size_t)fprintf(file, "%s", PIPELINE("")); written < bytes; written++) {
    fputc('#', file);
  }
  ck_assert_int_eq(fclose(file), 0);
}

START_TEST(the_largest_file_is_read) {
  write_long_file("main.yaml", YAML_MAX_BYTES);
  expect("main.yaml", "");
}
END_TEST

START_TEST(a_larger_file_is_refused) {
  write_long_file("main.yaml", YAML_MAX_BYTES + 1);
  expect("main.yaml", "main.yaml: a configuration file may have at most 1 MiB\n  spread it over several files in conf.d\n");
}
END_TEST

Suite *load_suite(void);

Suite *load_suite(void) {
  Suite *suite = suite_create("load");
  TCase *files = tcase_create("files");
  tcase_add_checked_fixture(files, make_folder, remove_folder);
  tcase_add_test(files, a_file_alone_is_read);
  tcase_add_test(files, files_of_stages_begin_at_the_folder_of_their_configuration);
  tcase_add_test(files, drop_ins_add_and_override_in_the_order_of_their_names);
  tcase_add_test(files, the_folder_is_beside_the_file);
  tcase_add_test(files, pipelines_may_be_in_drop_ins_alone);
  tcase_add_test(files, other_files_in_the_folder_are_not_read);
  tcase_add_test(files, a_pipeline_twice_names_both_places);
  tcase_add_test(files, errors_of_all_files_come_in_one_report);
  tcase_add_test(files, a_missing_file_is_named_with_a_remedy);
  tcase_add_test(files, an_example_is_offered_in_its_place);
  tcase_add_test(files, a_folder_is_no_file);
  tcase_add_test(files, a_file_where_the_folder_should_be_is_an_error);
  tcase_add_test(files, a_drop_in_that_leads_nowhere_is_an_error);
  tcase_add_test(files, the_largest_file_is_read);
  tcase_add_test(files, a_larger_file_is_refused);
  suite_add_tcase(suite, files);
  return suite;
}
