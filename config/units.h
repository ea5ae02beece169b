/* Numbers, durations and sizes as they stand in the file: from text and back, exactly. */
#ifndef FRAMED_CONFIG_UNITS_H
#define FRAMED_CONFIG_UNITS_H

#include <stdint.h>
#include <stdio.h>

enum units_result {
  UNITS_OK,
  UNITS_MALFORMED,
  UNITS_TOO_LARGE,
  UNITS_NO_UNIT,     /* a bare number */
  UNITS_UNKNOWN_UNIT /* a number and something else */
};

#define UNITS_OF_TIME "ns us ms s min h d"
#define UNITS_OF_SIZE "B KiB MiB GiB TiB"

/* A whole decimal number, perhaps negative. */
enum units_result units_whole(const char *text, int64_t *value);
/* A finite decimal number, perhaps with fraction and exponent. */
enum units_result units_number(const char *text, double *value);
/* A number, perhaps with a fraction, and a unit of time; `unit` is where the unit begins in `text`. */
enum units_result units_duration(const char *text, int64_t *ns, const char **unit);
/* The same with a unit of size. */
enum units_result units_size(const char *text, int64_t *bytes, const char **unit);

enum { UNITS_TEXT = 32 };

/* The shortest text that reads back as the same value; durations and sizes in the largest unit that fits. */
const char *units_describe_number(double value, char text[UNITS_TEXT]);
const char *units_describe_duration(int64_t ns, char text[UNITS_TEXT]);
const char *units_describe_size(int64_t bytes, char text[UNITS_TEXT]);

#endif
