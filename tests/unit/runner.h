/* One test program runs the suites of one directory; the list of them is generated from the file names. */
#ifndef FRAMED_TESTS_UNIT_RUNNER_H
#define FRAMED_TESTS_UNIT_RUNNER_H

#include <check.h>

struct unit_suite {
  const char *name;
  Suite *(*make)(void);
};

extern const struct unit_suite unit_suites[]; /* ends with a NULL name */

#endif
