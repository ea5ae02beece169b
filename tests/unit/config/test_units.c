/* Numbers and durations from text and back. */
#include "config/units.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

static const struct {
  const char *text;
  enum units_result result;
  int64_t ns;
} durations[] = {
    {"0s", UNITS_OK, 0},
    {"1ns", UNITS_OK, 1},
    {"200us", UNITS_OK, 200000},
    {"50ms", UNITS_OK, 50000000},
    {"50 ms", UNITS_OK, 50000000},
    {"1.5s", UNITS_OK, 1500000000},
    {"0.5min", UNITS_OK, 30000000000},
    {"0.1ns", UNITS_OK, 0},
    {"2h", UNITS_OK, 7200000000000},
    {"2562047h", UNITS_OK, INT64_C(9223369200000000000)},
    {"2562048h", UNITS_TOO_LARGE, 0},
    {"99999999999999999999s", UNITS_TOO_LARGE, 0},
    {"9223372036854775807ns", UNITS_OK, INT64_MAX},
    {"9223372036854775808ns", UNITS_TOO_LARGE, 0},
    {"9223372036.9s", UNITS_TOO_LARGE, 0},
    {"50", UNITS_NO_UNIT, 0},
    {"1.5 ", UNITS_NO_UNIT, 0},
    {"50sec", UNITS_UNKNOWN_UNIT, 0},
    {"50 m s", UNITS_UNKNOWN_UNIT, 0},
    {"50MS", UNITS_UNKNOWN_UNIT, 0},
    {"1e3s", UNITS_UNKNOWN_UNIT, 0},
    {"", UNITS_MALFORMED, 0},
    {"ms", UNITS_MALFORMED, 0},
    {"-5ms", UNITS_MALFORMED, 0},
    {"1.ms", UNITS_MALFORMED, 0},
    {".5s", UNITS_MALFORMED, 0},
};

START_TEST(duration_is_read) {
  int64_t ns = 0;
  const char *unit = NULL;
  enum units_result result = units_duration(durations[_i].text, &ns, &unit);
  ck_assert_msg(result == durations[_i].result, "%s gave %d", durations[_i].text, (int)result);
  if (result == UNITS_OK) {
    ck_assert_msg(ns == durations[_i].ns, "%s gave %lld", durations[_i].text, (long long)ns);
  }
}
END_TEST

START_TEST(unknown_unit_is_pointed_at) {
  int64_t ns;
  const char *unit = NULL;
  ck_assert_int_eq(units_duration("12.5 lightyears", &ns, &unit), UNITS_UNKNOWN_UNIT);
  ck_assert_str_eq(unit, "lightyears");
}
END_TEST

static const struct {
  const char *text;
  enum units_result result;
  int64_t bytes;
} sizes[] = {
    {"0B", UNITS_OK, 0},
    {"64MiB", UNITS_OK, 64 << 20},
    {"1.5 GiB", UNITS_OK, INT64_C(3) << 29},
    {"2KiB", UNITS_OK, 2048},
    {"8388607TiB", UNITS_OK, INT64_C(8388607) << 40},
    {"8388608TiB", UNITS_TOO_LARGE, 0},
    {"64", UNITS_NO_UNIT, 0},
    {"64MB", UNITS_UNKNOWN_UNIT, 0},
    {"64mib", UNITS_UNKNOWN_UNIT, 0},
    {"50ms", UNITS_UNKNOWN_UNIT, 0},
    {"MiB", UNITS_MALFORMED, 0},
    {"-1MiB", UNITS_MALFORMED, 0},
};

START_TEST(size_is_read) {
  int64_t bytes = -1;
  const char *unit;
  ck_assert_int_eq(units_size(sizes[_i].text, &bytes, &unit), sizes[_i].result);
  if (sizes[_i].result == UNITS_OK) {
    char text[UNITS_TEXT];
    ck_assert_int_eq(bytes, sizes[_i].bytes);
    ck_assert_int_eq(units_size(units_describe_size(bytes, text), &bytes, &unit), UNITS_OK);
    ck_assert_int_eq(bytes, sizes[_i].bytes);
  }
}
END_TEST

START_TEST(duration_survives_its_description) {
  static const int64_t values[] = {
      0,          1,           999,         1000,          1500,          200000,        50000000,
      1500000000, 60000000000, 90000000000, 3600000000000, 3661000000000, 3600000000001, INT64_MAX};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    char text[UNITS_TEXT];
    int64_t ns = -1;
    const char *unit;
    ck_assert_int_eq(units_duration(units_describe_duration(values[i], text), &ns, &unit), UNITS_OK);
    ck_assert_int_eq(ns, values[i]);
  }
}
END_TEST

START_TEST(description_takes_the_largest_unit) {
  char text[UNITS_TEXT];
  ck_assert_str_eq(units_describe_duration(0, text), "0s");
  ck_assert_str_eq(units_describe_duration(1500000, text), "1500us");
  ck_assert_str_eq(units_describe_duration(90000000000, text), "90s");
  ck_assert_str_eq(units_describe_duration(7200000000000, text), "2h");
  ck_assert_str_eq(units_describe_size(0, text), "0B");
  ck_assert_str_eq(units_describe_size(INT64_C(3) << 29, text), "1536MiB");
}
END_TEST

static const struct {
  const char *text;
  enum units_result result;
  double value;
} numbers[] = {
    {"0", UNITS_OK, 0},           {"2.0", UNITS_OK, 2},         {"-2.5e-1", UNITS_OK, -0.25}, {"+3", UNITS_OK, 3},
    {".5", UNITS_OK, 0.5},        {"1.", UNITS_OK, 1},          {"1E3", UNITS_OK, 1000},      {"1e999", UNITS_TOO_LARGE, 0},
    {"1e", UNITS_MALFORMED, 0},   {"e5", UNITS_MALFORMED, 0},   {".", UNITS_MALFORMED, 0},    {"", UNITS_MALFORMED, 0},
    {"-", UNITS_MALFORMED, 0},    {"0x10", UNITS_MALFORMED, 0}, {"nan", UNITS_MALFORMED, 0},  {"inf", UNITS_MALFORMED, 0},
    {".inf", UNITS_MALFORMED, 0}, {"1 2", UNITS_MALFORMED, 0},  {"1,5", UNITS_MALFORMED, 0},  {" 1", UNITS_MALFORMED, 0},
    {"--1", UNITS_MALFORMED, 0},
};

START_TEST(number_is_read) {
  double value = 0;
  enum units_result result = units_number(numbers[_i].text, &value);
  ck_assert_msg(result == numbers[_i].result, "'%s' gave %d", numbers[_i].text, (int)result);
  if (result == UNITS_OK) {
    ck_assert_double_eq(value, numbers[_i].value);
  }
}
END_TEST

START_TEST(endless_digits_are_no_number) {
  char text[200];
  memset(text, '9', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  double value;
  int64_t whole;
  ck_assert_int_eq(units_number(text, &value), UNITS_MALFORMED);
  ck_assert_int_eq(units_whole(text, &whole), UNITS_TOO_LARGE);
}
END_TEST

START_TEST(number_survives_its_description) {
  static const double values[] = {0, 1, -1, 0.1, 1.0 / 3, 29.97, 1e-300, 1e300, 123456789.123456789, 5e-324};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    char text[UNITS_TEXT];
    double value = -7;
    ck_assert_int_eq(units_number(units_describe_number(values[i], text), &value), UNITS_OK);
    ck_assert_double_eq(value, values[i]);
  }
}
END_TEST

START_TEST(whole_number_is_read) {
  int64_t value = 0;
  ck_assert_int_eq(units_whole("-42", &value), UNITS_OK);
  ck_assert_int_eq(value, -42);
  ck_assert_int_eq(units_whole("9223372036854775807", &value), UNITS_OK);
  ck_assert_int_eq(value, INT64_MAX);
  ck_assert_int_eq(units_whole("9223372036854775808", &value), UNITS_TOO_LARGE);
  ck_assert_int_eq(units_whole("4.0", &value), UNITS_MALFORMED);
  ck_assert_int_eq(units_whole("-", &value), UNITS_MALFORMED);
  ck_assert_int_eq(units_whole("", &value), UNITS_MALFORMED);
}
END_TEST

Suite *units_suite(void);

Suite *units_suite(void) {
  Suite *suite = suite_create("units");
  TCase *both = tcase_create("both ways");
  tcase_add_loop_test(both, duration_is_read, 0, sizeof durations / sizeof durations[0]);
  tcase_add_test(both, unknown_unit_is_pointed_at);
  tcase_add_loop_test(both, size_is_read, 0, sizeof sizes / sizeof sizes[0]);
  tcase_add_test(both, duration_survives_its_description);
  tcase_add_test(both, description_takes_the_largest_unit);
  tcase_add_loop_test(both, number_is_read, 0, sizeof numbers / sizeof numbers[0]);
  tcase_add_test(both, endless_digits_are_no_number);
  tcase_add_test(both, number_survives_its_description);
  tcase_add_test(both, whole_number_is_read);
  suite_add_tcase(suite, both);
  return suite;
}
