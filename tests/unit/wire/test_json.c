/* Lines of JSON: exact ones of each kind, numbers that are the same float32 again, strings that are UTF-8, and their longest.
 */
#include "daemon/wire/json.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/chance.h"
#include "tests/unit/runner.h"

enum { GUARD = 0x5a };

static char *line;

/* Writes a line into exactly as much room as it may take. */
static const char *write_line_of(const struct json_shape *shape, const struct json_frame *frame, const float *values) {
  size_t most = json_most_bytes(shape);
  free(line);
  line = malloc(most + 2);
  line[most] = GUARD;
  size_t bytes = json_write_line(shape, frame, values, line);
  require(bytes <= most && line[most] == GUARD, "%zu bytes were written into %zu", bytes, most);
  line[bytes] = '\0';
  return line;
}

static const char *write_line(const struct json_shape *shape, const float *values) {
  static const struct json_frame frame = {.sequence = 12, .epoch = 1700, .number = 5, .timestamp = 3400};
  return write_line_of(shape, &frame, values);
}

/* -- whole lines --------------------------------------------------------------------------------------------------- */

#define HEAD "{\"pipeline\":\"cam0\",\"sequence\":12,\"timestamp_ns\":3400,\"epoch\":1700,\"number\":5,"

static const char *const labels[] = {"cat", "dog"};

START_TEST(boxes_end_at_the_first_without_a_score) {
  const float values[][6] = {{1.5F, 2, 30, 40.25F, 0.9F, 1}, {0, 0, 8, 8, 0.5F, 7}, {0}, {1, 1, 1, 1, 0.1F, 0}};
  const struct json_shape shape = {"cam0", JSON_BOXES, 4, 6, labels, 2};
  ck_assert_str_eq(write_line(&shape, values[0]), HEAD
                   "\"boxes\":[{\"x\":1.5,\"y\":2,\"width\":30,\"height\":40.25,\"score\":0.9,\"class\":1,\"label\":\"dog\"},"
                   "{\"x\":0,\"y\":0,\"width\":8,\"height\":8,\"score\":0.5,\"class\":7}]}\n");
}
END_TEST

START_TEST(no_boxes_are_an_empty_list) {
  const float values[6] = {0};
  const struct json_shape shape = {"cam0", JSON_BOXES, 1, 6, NULL, 0};
  ck_assert_str_eq(write_line(&shape, values), HEAD "\"boxes\":[]}\n");
}
END_TEST

START_TEST(classes_are_all_there) {
  const float values[][2] = {{0, 0.75F}, {1, 0.25F}, {-1, 0}};
  const struct json_shape shape = {"cam0", JSON_CLASSES, 3, 2, labels, 2};
  ck_assert_str_eq(write_line(&shape, values[0]), HEAD "\"classes\":[{\"class\":0,\"score\":0.75,\"label\":\"cat\"},"
                                                       "{\"class\":1,\"score\":0.25,\"label\":\"dog\"},"
                                                       "{\"class\":-1,\"score\":0}]}\n");
}
END_TEST

START_TEST(stats_have_their_histogram) {
  const float values[] = {0, 255, 127.5F, 1, 0.5F, 0, 0.5F};
  const struct json_shape shape = {"cam0", JSON_STATS, 1, 7, NULL, 0};
  ck_assert_str_eq(write_line(&shape, values),
                   HEAD "\"stats\":{\"minimum\":0,\"maximum\":255,\"mean\":127.5,\"counted\":1,\"histogram\":[0.5,0,0.5]}}\n");
}
END_TEST

START_TEST(motion_lists_as_many_boxes_as_it_says) {
  const float values[][5] = {{1, 3, 0.125F, 0, 0}, {8, 16, 24, 32, 99}, {1, 1, 1, 1, 1}};
  const struct json_shape shape = {"cam0", JSON_MOTION, 3, 5, NULL, 0};
  ck_assert_str_eq(write_line(&shape, values[0]),
                   HEAD "\"motion\":{\"groups\":3,\"changed\":0.125,"
                        "\"boxes\":[{\"x\":8,\"y\":16,\"width\":24,\"height\":32,\"pixels\":99}]}}\n");
}
END_TEST

/* What a device that fails may leave there is written, and ends. */
START_TEST(motion_never_leaves_its_rows) {
  const float values[][5] = {{INFINITY, 3, 0, 0, 0}, {8, 16, 24, 32, 99}};
  const struct json_shape shape = {"cam0", JSON_MOTION, 2, 5, NULL, 0};
  ck_assert_ptr_nonnull(strstr(write_line(&shape, values[0]), "\"pixels\":99}]}}\n"));
}
END_TEST

/* -- numbers ------------------------------------------------------------------------------------------------------- */

static const struct {
  float number;
  const char *text;
} numbers[] = {{0.1F, "0.1"},
               {-0.1F, "-0.1"},
               {1.0F / 3, "0.33333334"},
               {-0.0F, "0"},
               {16777216, "16777216"},
               {-640, "-640"},
               {8388607.5F, "8388607.5"},
               {999999936, "999999936"},
               {1e9F, "1e+09"},
               {3.40282347e38F, "3.40282347e+38"},
               {3e-9F, "0.000000003"},
               {4.82253086e-7F, "0.0000004822531"},
               {-1.17549435e-38F, "-1.17549435e-38"},
               {NAN, "null"},
               {INFINITY, "null"},
               {-INFINITY, "null"}};

/* The text of a number, as it stands in a line. */
static const char *text_of(float number) {
  const float values[] = {number, 0, 0, 0};
  static const char before[] = HEAD "\"stats\":{\"minimum\":";
  char *text = strdup(write_line(&(struct json_shape){"cam0", JSON_STATS, 1, 4, NULL, 0}, values) + sizeof before - 1);
  static char found[64];
  *strchr(text, ',') = '\0';
  snprintf(found, sizeof found, "%s", text);
  free(text);
  return found;
}

START_TEST(number_is_short) { ck_assert_str_eq(text_of(numbers[_i].number), numbers[_i].text); }
END_TEST

/* Any bits, and shares and places as results have them. */
START_TEST(number_is_the_same_again) {
  chance_begin(1);
  for (unsigned i = 0; i < 300000; i++) {
    uint32_t bits = (uint32_t)chance(1U << 16) << 16 | chance(1U << 16);
    float number;
    memcpy(&number, &bits, sizeof number);
    number = i % 3 == 1 ? (float)chance(1U << 20) / (1 << 20) : number;
    number = i % 3 == 2 ? (float)chance(1U << 24) / 4096 : number;
    const char *text = text_of(number);
    require(!isfinite(number) || (float)strtod(text, NULL) == number, "%.9g became %s", (double)number, text);
  }
}
END_TEST

/* -- strings ------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *label, *text;
} strings[] = {
    {"", ""},
    {"traffic light", "traffic light"},
    {"a \"b\" \\", "a \\\"b\\\" \\\\"},
    {"\t\n\x01\x1f\x7f", "\\u0009\\u000a\\u0001\\u001f\x7f"},
    {"Bär € \xf0\x9f\x90\xb6", "Bär € \xf0\x9f\x90\xb6"},
    {"\xff", "\xef\xbf\xbd"},                                                 /* no UTF-8 at all */
    {"\xc3", "\xef\xbf\xbd"},                                                 /* cut off */
    {"\xe2\x82z", "\xef\xbf\xbd\xef\xbf\xbdz"},                               /* likewise, before another letter */
    {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* overlong */
    {"\xe0\x9f\xbf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* likewise */
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* a surrogate */
    {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* above U+10FFFF */
    {"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80", "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80"}, /* the last ones that are */
};

START_TEST(label_is_a_string) {
  const float values[2] = {0, 1};
  char expected[256];
  snprintf(expected, sizeof expected, HEAD "\"classes\":[{\"class\":0,\"score\":1,\"label\":\"%s\"}]}\n", strings[_i].text);
  const struct json_shape shape = {"cam0", JSON_CLASSES, 1, 2, &strings[_i].label, 1};
  ck_assert_str_eq(write_line(&shape, values), expected);
}
END_TEST

/* Numbers and labels that take the most room. */
START_TEST(longest_line_fits) {
  const float longest = -1.17549435e-38F;
  const size_t columns[] = {[JSON_STATS] = 260, [JSON_MOTION] = 5, [JSON_CLASSES] = 2, [JSON_BOXES] = 6};
  const bool is_row = _i == JSON_STATS;
  const char *label = "\x01\x01\x01\x01\x01\x01\x01\x01";
  const struct json_shape shape = {label, (enum json_kind)_i, is_row ? 1 : 100, columns[_i], &label, 1};
  float *values = malloc(shape.rows * shape.columns * sizeof *values);
  for (size_t i = 0; i < shape.rows * shape.columns; i++) {
    bool is_class = (_i == JSON_CLASSES && i % 2 == 0) || (_i == JSON_BOXES && i % 6 == 5);
    values[i] = is_class ? 0 : longest;
  }
  values[0] = _i == JSON_MOTION ? (float)shape.rows : values[0];
  write_line_of(&shape, &(struct json_frame){UINT64_MAX, UINT64_MAX, UINT64_MAX, INT64_MIN}, values);
  free(values);
}
END_TEST

static void forget_line(void) {
  free(line);
  line = NULL;
}

Suite *json_suite(void);

Suite *json_suite(void) {
  Suite *suite = suite_create("json");
  TCase *tests = tcase_create("lines");
  tcase_add_unchecked_fixture(tests, NULL, forget_line);
  tcase_add_test(tests, boxes_end_at_the_first_without_a_score);
  tcase_add_test(tests, no_boxes_are_an_empty_list);
  tcase_add_test(tests, classes_are_all_there);
  tcase_add_test(tests, stats_have_their_histogram);
  tcase_add_test(tests, motion_lists_as_many_boxes_as_it_says);
  tcase_add_test(tests, motion_never_leaves_its_rows);
  tcase_add_loop_test(tests, number_is_short, 0, (int)(sizeof numbers / sizeof numbers[0]));
  tcase_add_test(tests, number_is_the_same_again);
  tcase_add_loop_test(tests, label_is_a_string, 0, (int)(sizeof strings / sizeof strings[0]));
  tcase_add_loop_test(tests, longest_line_fits, JSON_STATS, JSON_BOXES + 1);
  suite_add_tcase(suite, tests);
  return suite;
}
