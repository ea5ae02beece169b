/* Memory that runs out at every single allocation is an error, never a crash or a leak (which the sanitizer sees). */
#include "config/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/config/fixture.h"

static const char *const valid =
    "status: {http: '127.0.0.1:1'}\n"
    "models: {m: {file: m.onnx, shape: {x: [1], y: [2]}, output: o}}\npipelines:\n"
    "  a: {source: {socket: a, allow: {users: [0, 1, 2], groups: [0]}, " FORMAT "}, sink: {socket: a2},\n"
    "      stages: [sobel, run: {file: x, settings: {a: 1, b: [1, 2], c: d}},\n"
    "               model: {name: m}, model: {file: n, shape: {x: [1]}}]}\n"
    "  b: {source: {file: b, " FORMAT "}, sink: {file: b2}}\n";
static const char *const invalid = "lanes: x\npipelines:\n"
                                   "  a: {sorce: {socket: a}, sink: {socket: a, file: b}}\n"
                                   "  b: {source: {file: b, " FORMAT "}, sink: {file: b2}, stages: [afine]}\n"
                                   "  b: {}\n";

static void end_failing(void) { memory_allocations_left = -1; }

enum { MOST_ALLOCATIONS = 1000 };

static bool is_exhausted(struct config_errors *errors) {
  return strcmp(config_errors_text(errors), "out of memory while reading the configuration\n") == 0;
}

/* Reads `text` with allocations failing from the first, the second, and so on, until none is missing. */
static void read_until_enough(const char *text, bool is_valid) {
  long allocations = 0;
  for (bool enough = false; !enough; allocations++) {
    struct config_errors *errors = config_errors_new();
    memory_allocations_left = allocations;
    struct config *config = config_parse("t.yaml", text, strlen(text), &fixture_hooks, errors);
    memory_allocations_left = -1;
    enough = !is_exhausted(errors);
    ck_assert((config != NULL) == (config_errors_count(errors) == 0));
    ck_assert_msg((config != NULL) == (enough && is_valid), "%ld: %s", allocations, config_errors_text(errors));
    config_free(config);
    config_errors_free(errors);
    ck_assert_int_lt(allocations, MOST_ALLOCATIONS);
  }
  ck_assert_int_gt(allocations, 20);
}

START_TEST(a_valid_file_without_memory) { read_until_enough(valid, true); }
END_TEST

START_TEST(an_invalid_file_without_memory) { read_until_enough(invalid, false); }
END_TEST

START_TEST(a_list_without_memory) {
  memory_allocations_left = 0;
  ck_assert_ptr_null(config_errors_new());
}
END_TEST

START_TEST(a_file_on_disk_without_memory) {
  bool enough = false;
  char path[] = "/tmp/framed-config-XXXXXX";
  close(mkstemp(path));
  for (long allocations = 0; !enough; allocations++) {
    struct config_errors *errors = config_errors_new();
    memory_allocations_left = allocations;
    ck_assert_ptr_null(config_load(path, &fixture_hooks, errors));
    memory_allocations_left = -1;
    enough = !is_exhausted(errors);
    ck_assert(!enough || strstr(config_errors_text(errors), "'pipelines' is missing"));
    config_errors_free(errors);
    ck_assert_int_lt(allocations, MOST_ALLOCATIONS);
  }
  unlink(path);
}
END_TEST

START_TEST(arrays_grow_by_powers_of_two) {
  int *array = NULL;
  for (size_t count = 0; count < 100; count++) {
    array = memory_grow(array, count, sizeof *array);
    ck_assert_ptr_nonnull(array);
    ck_assert_int_eq(array[count], 0);
    array[count] = (int)count;
  }
  ck_assert_int_eq(array[99], 99);
  ck_assert_ptr_null(memory_grow(array, SIZE_MAX / 8 + 1, sizeof *array));
  free(array);
}
END_TEST

Suite *memory_suite(void);

Suite *memory_suite(void) {
  Suite *suite = suite_create("memory");
  TCase *exhausted = tcase_create("exhausted");
  tcase_add_checked_fixture(exhausted, NULL, end_failing);
  tcase_add_test(exhausted, a_valid_file_without_memory);
  tcase_add_test(exhausted, an_invalid_file_without_memory);
  tcase_add_test(exhausted, a_list_without_memory);
  tcase_add_test(exhausted, a_file_on_disk_without_memory);
  tcase_add_test(exhausted, arrays_grow_by_powers_of_two);
  suite_add_tcase(suite, exhausted);
  return suite;
}
