/* The table of framectl top: which rows, in which order, and what they say. */
#include "tools/framectl/status/rows.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"
#include "tools/framectl/status/details.h"

static const char document_text[] =
    "{'pipelines': {"
    "'cam10': {'state': 'running', 'waiting': 'reader', 'last_in_age_s': 0.5, 'dropped_last_minute': {'late': 2, 'oldest': 10},"
    "'throughput': {'in_fps': 30, 'out_fps': 5}, 'latency_us': {'total': {'p99': 800, 'count': 9}}},"
    "'cam2': {'state': 'running', 'condition': 'silent', 'waiting': 'nothing', 'last_in_age_s': 90, 'errors': {'pipeline': "
    "null, 'source': null,"
    "'sink': {'text': 'the disk is full'}}, 'throughput': {'in_fps': 60, 'out_fps': 1}},"
    "'cam1': {'state': 'paused', 'waiting': 'resume', 'last_in_age_s': null, 'dropped_last_minute': {'late': 3},"
    "'latency_us': {'total': {'p99': 900, 'count': 9}}}}}";

static json_t *document;
static struct rows rows;

static void setup(void) {
  char text[sizeof document_text];
  memcpy(text, document_text, sizeof text);
  for (char *quote = text; (quote = strchr(quote, '\'')); quote++) {
    *quote = '"';
  }
  document = json_loads(text, 0, NULL);
  ck_assert_ptr_nonnull(document);
}

static void teardown(void) {
  rows_clear(&rows);
  json_decref(document);
}

/* The names, by their last characters: "1 2 10" */
static const char *shown(const struct row_order *order) {
  static char names[64];
  names[0] = '\0';
  ck_assert(rows_make(&rows, document, order));
  for (unsigned i = 0; i < rows.count; i++) {
    size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? " " : "", rows.items[i].view.name + strlen("cam"));
  }
  return names;
}

static const struct {
  enum row_key key;
  const char *names, *reversed;
} orders[] = {
    {ROW_NAME, "1 2 10", "10 2 1"},    {ROW_STATE, "1 10 2", "2 10 1"}, {ROW_IN, "2 10 1", "1 10 2"},
    {ROW_OUT, "10 2 1", "1 2 10"},     {ROW_AGE, "1 2 10", "10 2 1"},   {ROW_P99, "1 10 2", "2 10 1"},
    {ROW_DROPPED, "10 1 2", "2 1 10"}, {ROW_WAITS, "2 10 1", "1 10 2"}, {ROW_ERROR, "1 10 2", "2 1 10"},
};

START_TEST(rows_are_sorted_by_any_column) {
  ck_assert_str_eq(shown(&(struct row_order){.key = orders[_i].key}), orders[_i].names);
  ck_assert_str_eq(shown(&(struct row_order){.key = orders[_i].key, .reversed = true}), orders[_i].reversed);
}
END_TEST

static const struct {
  const char *filter, *names;
} filters[] = {{"CAM1", "1 10"}, {"pause", "1"}, {"silent", "2"}, {"disk", "2"}, {"reader", "10"}, {"nowhere", ""}};

START_TEST(a_filter_leaves_rows_that_have_it) {
  struct row_order order = {0};
  snprintf(order.filter, sizeof order.filter, "%s", filters[_i].filter);
  ck_assert_str_eq(shown(&order), filters[_i].names);
  ck_assert_uint_eq(rows.all, 3);
}
END_TEST

START_TEST(rows_say_what_the_page_says) {
  char text[ROW_TEXT];
  ck_assert_str_eq(shown(&(struct row_order){0}), "1 2 10");
  ck_assert_str_eq(row_text(&rows.items[0], ROW_STATE, text), "paused");
  ck_assert_str_eq(row_text(&rows.items[1], ROW_STATE, text), "silent");
  ck_assert_str_eq(row_text(&rows.items[2], ROW_DROPPED, text), "2 late, 10 oldest");
  ck_assert_str_eq(row_text(&rows.items[1], ROW_DROPPED, text), "-");
  ck_assert_str_eq(row_text(&rows.items[1], ROW_ERROR, text), "the disk is full");
  ck_assert_str_eq(row_text(&rows.items[0], ROW_AGE, text), "-");
  ck_assert_str_eq(row_text(&rows.items[1], ROW_P99, text), "-");
  ck_assert_str_eq(row_text(&rows.items[1], ROW_WAITS, text), "-");
  ck_assert_uint_eq(rows_find(&rows, "cam10"), 2);
  ck_assert_uint_eq(rows_find(&rows, "cam3"), 3);
}
END_TEST

START_TEST(details_end_with_the_pipelines_own_configuration) {
  const char *config = "lanes: 2\nother:\n  cam1:\n    no: 1\npipelines:\n  cam10:\n    no: 2\n  \"cam1\":\n    slots: 7\n"
                       "    sink:\n      file: x\n  cam2:\n    no: 3\n";
  char *text = details_text(document, "cam1", config);
  ck_assert_ptr_nonnull(text);
  ck_assert_ptr_nonnull(strstr(text, "cam1: paused"));
  ck_assert_ptr_nonnull(strstr(text, "  \"cam1\":\n    slots: 7\n    sink:\n      file: x\n"));
  ck_assert_ptr_null(strstr(text, "no: "));
  free(text);
  ck_assert_ptr_null(details_text(document, "cam3", config));
}
END_TEST

Suite *rows_suite(void);
Suite *rows_suite(void) {
  Suite *suite = suite_create("rows");
  TCase *test_case = tcase_create("top");
  tcase_add_checked_fixture(test_case, setup, teardown);
  tcase_add_loop_test(test_case, rows_are_sorted_by_any_column, 0, sizeof orders / sizeof orders[0]);
  tcase_add_loop_test(test_case, a_filter_leaves_rows_that_have_it, 0, sizeof filters / sizeof filters[0]);
  tcase_add_test(test_case, rows_say_what_the_page_says);
  tcase_add_test(test_case, details_end_with_the_pipelines_own_configuration);
  suite_add_tcase(suite, test_case);
  return suite;
}
