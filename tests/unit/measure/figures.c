#include "tests/unit/measure/figures.h"

#include <check.h>
#include <string.h>

struct diagnosis_figures full(double h2d, double kernel, double d2h, unsigned slots, double pace) {
  struct diagnosis_figures figures = {.seconds = 10, .busy_s = 10, .frames = 1e7 / pace, .slots = slots, .lossless = true};
  figures.step[STEP_H2D] = h2d;
  figures.step[STEP_KERNEL] = kernel;
  figures.step[STEP_D2H] = d2h;
  figures.step[STEP_GPU_WAIT] = slots * pace - h2d - kernel - d2h;
  return figures;
}

struct diagnosis diagnosis_of(const struct diagnosis_figures *figures) {
  struct diagnosis diagnosis;
  diagnose(figures, &diagnosis);
  return diagnosis;
}

void expect_advice(const struct diagnosis *diagnosis, enum improvement improvement, const char *part, double gain) {
  ck_assert_int_eq(diagnosis->improve, improvement);
  ck_assert_msg(strstr(diagnosis->advice, part) != NULL, "'%s' is not in '%s'", part, diagnosis->advice);
  ck_assert_double_eq_tol(diagnosis->gain, gain, 0.005);
}
