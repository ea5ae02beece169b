/* Numbers, durations and sizes of the file: from text and back, without loss. */
#ifndef FRAMED_CONFIG_UNITS_H
#define FRAMED_CONFIG_UNITS_H

#include <stdint.h>
#include <stdio.h>

enum units_result {
  UNITS_OK,
  UNITS_MALFORMED,
  UNITS_TOO_LARGE,
  UNITS_NO_UNIT,     /* only a number */
  UNITS_UNKNOWN_UNIT /* a number and something else */
};

#define UNITS_OF_TIME "ns us ms s min h d"
#define UNITS_OF_SIZE "B KiB MiB GiB TiB"

/* A whole decimal number, which may be negative. */
enum units_result units_whole(const char *text, int64_t *value);
/* A finite decimal number, which may have a fraction and an exponent. */
enum units_result units_number(const char *text, double *value);
/* A number, which may have a fraction, and a unit of time. `unit` points to the unit in `text`. */
enum units_result units_duration(const char *text, int64_t *ns, const char **unit);
/* A number and a unit of size. */
enum units_result units_size(const char *text, int64_t *bytes, const char **unit);

enum { UNITS_TEXT = 32 };

/* The shortest text that reads back as the same value. Durations and sizes use the largest unit that fits. */
const char *units_describe_number(double value, char text[UNITS_TEXT]);
const char *units_describe_duration(int64_t ns, char text[UNITS_TEXT]);
const char *units_describe_size(int64_t bytes, char text[UNITS_TEXT]);

#endif
