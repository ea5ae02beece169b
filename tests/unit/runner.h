/* One test program runs the suites of one directory; the list of them is generated from the file names. */
#ifndef FRAMED_TESTS_UNIT_RUNNER_H
#define FRAMED_TESTS_UNIT_RUNNER_H

#include <check.h>

/* As ck_assert_msg(), for what is asked so often that the word which Check writes to its runner each time would count. */
#define require(condition, ...)                                                                                                \
  do {                                                                                                                         \
    if (!(condition)) {                                                                                                        \
      ck_abort_msg(__VA_ARGS__);                                                                                               \
    }                                                                                                                          \
  } while (0)

/* The tag of cases that are long and of which TSan would see nothing new: it leaves them out. */
#define NO_THREADS "no-threads"

struct unit_suite {
  const char *name;
  Suite *(*make)(void);
};

extern const struct unit_suite unit_suites[]; /* ends with a NULL name */

#endif
