/* Runs the tests of the CUDA backend on a real GPU. Exit status 77 where there is none. */
#include "gpu/backend.h"
#include "tests/gpu/backend.h"

#include <stdio.h>
#include <stdlib.h>

enum { NO_GPU = 77 };

static Suite *backend_suite(void) {
  Suite *suite = suite_create("cuda backend");
  TCase *group = tcase_create("gpu");
  tcase_set_timeout(group, 2 * RIG_PATIENCE_S);
  backend_add_frames(group);
  backend_add_times(group);
  backend_add_errors(group);
  suite_add_tcase(suite, group);
  return suite;
}

int main(void) {
  if (!gpu_nvidia_present("/dev")) {
    fprintf(stderr, "there is no NVIDIA GPU here: nothing was tested\n");
    return NO_GPU;
  }
  setvbuf(stdout, NULL, _IOLBF, 0); /* lines are to be seen when they are written, also through a pipe */
  SRunner *runner = srunner_create(backend_suite());
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
