/* Runs all suites of this program, or those named on the command line. Ends in Check's summary line. */
#include "tests/unit/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wanted(const char *name, int count, char **names) {
  for (int i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) {
      return 1;
    }
  }
  return count == 0;
}

int main(int argc, char **argv) {
  SRunner *runner = NULL;
  setenv("CK_DEFAULT_TIMEOUT", "60", 0); /* seconds; Check's own four are less than a busy machine may stand still for */
  for (const struct unit_suite *suite = unit_suites; suite->name; suite++) {
    if (!wanted(suite->name, argc - 1, argv + 1)) {
      continue;
    }
    if (runner) {
      srunner_add_suite(runner, suite->make());
    } else {
      runner = srunner_create(suite->make());
    }
  }
  if (!runner) {
    fprintf(stderr, "no such suite; there are:");
    for (const struct unit_suite *suite = unit_suites; suite->name; suite++) {
      fprintf(stderr, " %s", suite->name);
    }
    fprintf(stderr, "\n");
    return EXIT_FAILURE;
  }
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
