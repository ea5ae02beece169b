/* What is said of a device that failed. */
#include <string.h>

#include "daemon/frame/fault.h"
#include "tests/unit/runner.h"

static char text[FAULT_TEXT];

START_TEST(all_that_was_on_the_device_is_named) {
  struct fault fault;
  fault_of_device(&fault, 1, "it fell");
  ck_assert_str_eq(fault_describe(&fault, text), "it fell");
  fault_add_others(&fault, 3, "cam1");
  ck_assert_str_eq(fault_describe(&fault, text), "it fell; frames on the device: 3 of cam1");
  fault_add_others(&fault, 1, "cam2");
  fault.frames = 1;
  fault.epoch = 1700;
  fault.first = fault.last = 20;
  ck_assert_str_eq(fault_describe(&fault, text), "it fell; frame 20 of epoch 1700 was on the device, and 3 of cam1, 1 of cam2");
  fault_add_stage(&fault, "motion");
  ck_assert_str_eq(fault_describe(&fault, text),
                   "it fell; frame 20 of epoch 1700 was on the device (stage motion), and 3 of cam1, 1 of cam2");
  fault_add_stage(&fault, "sobel");
  fault.frames = 2;
  fault.last = 21;
  fault.others[0] = '\0';
  ck_assert_str_eq(fault_describe(&fault, text),
                   "it fell; frames 20 to 21 of epoch 1700 were on the device (stages motion, sobel)");
}
END_TEST

START_TEST(whatever_there_is_fits) {
  struct fault fault;
  char error[2 * GPU_TEXT];
  memset(error, 'x', sizeof error - 1);
  error[sizeof error - 1] = '\0';
  fault_of_device(&fault, 0, error);
  fault.frames = GPU_MAX_SLOTS;
  fault.first = fault.last = UINT64_MAX;
  for (int i = 0; i < 200; i++) {
    fault_add_stage(&fault, "normalize");
    fault_add_others(&fault, UINT64_MAX, "a-pipeline-with-a-name-of-quite-some-length");
  }
  ck_assert_uint_lt(strlen(fault_describe(&fault, text)), FAULT_TEXT);
  ck_assert_ptr_nonnull(strstr(text, " were on the device (stages normalize, normalize"));
}
END_TEST

Suite *fault_suite(void);
Suite *fault_suite(void) {
  Suite *suite = suite_create("fault");
  TCase *cases = tcase_create("fault");
  tcase_add_test(cases, all_that_was_on_the_device_is_named);
  tcase_add_test(cases, whatever_there_is_fits);
  suite_add_tcase(suite, cases);
  return suite;
}
