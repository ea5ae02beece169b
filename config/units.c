#include "config/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FRACTION_DIGITS = 9, NUMBER_LENGTH = 64 };

struct unit { /* the last of a table has the worth 1 */
  const char *name;
  int64_t worth;
};

static const struct unit times[] = {{"h", INT64_C(3600000000000)},
                                    {"min", INT64_C(60000000000)},
                                    {"s", 1000000000},
                                    {"ms", 1000000},
                                    {"us", 1000},
                                    {"d", INT64_C(86400000000000)},
                                    {"m", INT64_C(60000000000)},
                                    {"ns", 1}}; /* d and m are only read; h and min are written */
static const struct unit sizes[] = {
    {"TiB", INT64_C(1) << 40}, {"GiB", INT64_C(1) << 30}, {"MiB", INT64_C(1) << 20}, {"KiB", INT64_C(1) << 10}, {"B", 1}};

static bool is_digit(char character) { return character >= '0' && character <= '9'; }

static const char *skip_digits(const char *at) {
  while (is_digit(*at)) {
    at++;
  }
  return at;
}

/* Reads the digits from `at` to `end`. False if the value does not fit. */
static bool digits_value(const char *at, const char *end, int64_t *value) {
  *value = 0;
  for (; at < end; at++) {
    if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *at - '0', value)) {
      return false;
    }
  }
  return true;
}

enum units_result units_whole(const char *text, int64_t *value) {
  const char *digits = *text == '-' ? text + 1 : text;
  const char *end = skip_digits(digits);
  if (end == digits || *end) {
    return UNITS_MALFORMED;
  }
  if (!digits_value(digits, end, value)) {
    return UNITS_TOO_LARGE;
  }
  *value = *text == '-' ? -*value : *value;
  return UNITS_OK;
}

/* The end of the digits, fraction and exponent that begin at `at`, or NULL. */
static const char *skip_number(const char *at) {
  const char *digits = *at == '-' || *at == '+' ? at + 1 : at;
  const char *end = skip_digits(digits);
  if (*end == '.') {
    end = skip_digits(end + 1);
  }
  if (!is_digit(*digits) && !(*digits == '.' && is_digit(digits[1]))) {
    return NULL;
  }
  if (*end == 'e' || *end == 'E') {
    const char *exponent = end[1] == '-' || end[1] == '+' ? end + 2 : end + 1;
    end = is_digit(*exponent) ? skip_digits(exponent) : NULL;
  }
  return end;
}

enum units_result units_number(const char *text, double *value) {
  const char *end = skip_number(text);
  if (!end || *end || end - text > NUMBER_LENGTH) {
    return UNITS_MALFORMED;
  }
  *value = strtod(text, NULL);
  return isfinite(*value) ? UNITS_OK : UNITS_TOO_LARGE;
}

/* The value of a fraction such as "125" of one unit, rounded down to the smallest unit. */
static int64_t fraction_worth(const char *at, const char *end, int64_t unit) {
  double share = 0;
  double scale = 1;
  for (int digit = 0; at < end && digit < FRACTION_DIGITS; at++, digit++) {
    share = share * 10 + (*at - '0');
    scale *= 10;
  }
  return llround(share * (double)unit / scale);
}

static enum units_result read_quantity(const struct unit *units, const char *text, int64_t *value, const char **unit) {
  const char *point = skip_digits(text);
  const char *end = *point == '.' ? skip_digits(point + 1) : point;
  if (point == text || end == point + 1) {
    return UNITS_MALFORMED;
  }
  *unit = end + strspn(end, " ");
  if (**unit == '\0') {
    return UNITS_NO_UNIT;
  }
  size_t i = 0;
  while (strcmp(units[i].name, *unit) != 0) {
    if (units[i].worth == 1) {
      return UNITS_UNKNOWN_UNIT;
    }
    i++;
  }
  int64_t whole;
  if (!digits_value(text, point, &whole) || __builtin_mul_overflow(whole, units[i].worth, &whole) ||
      __builtin_add_overflow(whole, fraction_worth(point + 1, end, units[i].worth), value)) {
    return UNITS_TOO_LARGE;
  }
  return UNITS_OK;
}

enum units_result units_duration(const char *text, int64_t *ns, const char **unit) {
  return read_quantity(times, text, ns, unit);
}

enum units_result units_size(const char *text, int64_t *bytes, const char **unit) {
  return read_quantity(sizes, text, bytes, unit);
}

const char *units_describe_number(double value, char text[UNITS_TEXT]) {
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, UNITS_TEXT, "%.*g", digits, value);
    if (strtod(text, NULL) == value) {
      break;
    }
  }
  return text;
}

static const char *describe(const struct unit *units, int64_t value, char text[UNITS_TEXT]) {
  size_t i = 0;
  while (value % units[i].worth != 0) {
    i++;
  }
  snprintf(text, UNITS_TEXT, "%" PRId64 "%s", value / units[i].worth, units[i].name);
  return text;
}

const char *units_describe_duration(int64_t ns, char text[UNITS_TEXT]) {
  return describe(ns == 0 ? times + 2 : times, ns, text);
}

const char *units_describe_size(int64_t bytes, char text[UNITS_TEXT]) {
  enum { BYTES_ALONE = sizeof sizes / sizeof *sizes - 1 };
  return describe(bytes == 0 ? sizes + BYTES_ALONE : sizes, bytes, text);
}
