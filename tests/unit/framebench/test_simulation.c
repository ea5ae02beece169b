/* The model of many cameras on many devices, where what must come out is plain. */
#include "tools/framebench/scale/simulation.h"

#include "tests/unit/runner.h"

/* One device of which every step takes another time. */
static struct simulation one_device(unsigned cameras, unsigned slots, double rate) {
  return (struct simulation){
      .cameras = cameras,
      .slots = slots,
      .rate = rate,
      .devices = 1,
      .devices_of_host = 1,
      .kernels = 1,
      .service = {[SIMULATION_LANE] = 5, [SIMULATION_IN] = 80, [SIMULATION_KERNEL] = 100, [SIMULATION_OUT] = 70},
      .turnaround = 10,
      .seconds = 0.5};
}

static struct simulated run(const struct simulation *simulation) {
  struct problem problem = {0};
  struct simulated simulated;
  ck_assert(simulate(simulation, &simulated, &problem));
  return simulated;
}

static void expect(double value, double wanted, double share) { ck_assert_double_eq_tol(value, wanted, wanted * share); }

/* A single slot carries one frame at a time; with enough of them the longest service is all that counts. */
START_TEST(test_slots) {
  struct simulation plan = one_device(1, 1, 0);
  struct simulated found = run(&plan);
  expect(found.frames_per_s, 1e6 / 265, 0.001);
  expect(found.p50, 265, 1e-9);
  expect(found.busy[SIMULATION_KERNEL], 100.0 / 265, 0.001);
  plan.slots = 3;
  found = run(&plan);
  expect(found.frames_per_s, 1e6 / 100, 0.001);
  expect(found.p50, 300, 1e-9); /* each waits until the two before it have left the kernel */
  expect(found.busy[SIMULATION_KERNEL], 1, 0.001);
  expect(found.busy[SIMULATION_IN], 0.8, 0.001);
  plan = one_device(2, 3, 0);
  expect(run(&plan).p99, 600, 1e-9);
}
END_TEST

/* Frames that meet nobody take what they take; all of them come through. */
START_TEST(test_cameras_in_turn) {
  struct simulation plan = one_device(20, 2, 30);
  struct simulated found = run(&plan);
  expect(found.frames_per_s, 600, 0.01);
  ck_assert_double_eq_tol(found.p50, 265, 1e-6);
  ck_assert_double_eq_tol(found.longest, 265, 1e-6);
  ck_assert_uint_le(found.due - found.done, 1);
}
END_TEST

/* Cameras that begin whenever they like meet, and wait for each other, but no more than all of them at once would. */
START_TEST(test_cameras_that_meet) {
  struct simulation plan = one_device(200, 2, 30);
  plan.together = true;
  struct simulated found = run(&plan);
  expect(found.frames_per_s, 6000, 0.01);
  ck_assert_double_gt(found.p99, 265 + 100);
  ck_assert_double_lt(found.longest, 265 + 200 * 100);
  ck_assert_double_ge(found.p99, found.p50);
}
END_TEST

/* More than a device can take: it does what it can, and frames are later and later. */
START_TEST(test_too_many_cameras) {
  struct simulation plan = one_device(500, 2, 30);
  struct simulated found = run(&plan);
  expect(found.frames_per_s, 1e6 / 100, 0.001);
  expect((double)found.due, 500 * 30 * 0.5, 0.001);
  ck_assert_double_gt(found.p50, 100e3);
  plan.devices = 2;
  found = run(&plan);
  expect(found.frames_per_s, 15000, 0.01);
  ck_assert_double_lt(found.p99, 1000);
}
END_TEST

START_TEST(test_several_kernels_at_once) {
  struct simulation plan = one_device(4, 4, 0);
  plan.service[SIMULATION_KERNEL] = 1000;
  plan.kernels = 4;
  expect(run(&plan).frames_per_s, 4e6 / 1000, 0.001);
}
END_TEST

/* What the devices of one host share bounds them together, and those of two hosts twice as high. */
START_TEST(test_hosts) {
  struct simulation plan = one_device(16, 3, 0);
  plan.devices = 8;
  plan.devices_of_host = 8;
  plan.succession[SIMULATION_HOST] = 20; /* no frame is later for it while the host can do more */
  struct simulated found = run(&plan);
  expect(found.frames_per_s, 1e6 / 20, 0.001);
  expect(found.busy[SIMULATION_HOST], 1, 0.001);
  plan.devices_of_host = 4; /* 100,000/s, of which the kernels take 80,000 */
  expect(run(&plan).frames_per_s, 8e6 / 100, 0.01);
}
END_TEST

/* A frame that is alone takes what was measured of it, whether its steps come to less or to more; as many of them pass. */
START_TEST(test_what_a_frame_takes_alone) {
  static const double alone[] = {400, 153};
  struct simulation slow = one_device(1, 2, 30), busy = one_device(4, 3, 0);
  simulation_fit(&slow, alone[_i]);
  simulation_fit(&busy, alone[_i]);
  expect(run(&slow).p50, alone[_i], 1e-9);
  expect(run(&busy).frames_per_s, 1e6 / 100, 0.001);
}
END_TEST

Suite *simulation_suite(void);
Suite *simulation_suite(void) {
  Suite *suite = suite_create("simulation");
  TCase *model = tcase_create("model");
  tcase_add_test(model, test_slots);
  tcase_add_test(model, test_cameras_in_turn);
  tcase_add_test(model, test_cameras_that_meet);
  tcase_add_test(model, test_too_many_cameras);
  tcase_add_test(model, test_several_kernels_at_once);
  tcase_add_test(model, test_hosts);
  tcase_add_loop_test(model, test_what_a_frame_takes_alone, 0, 2);
  suite_add_tcase(suite, model);
  return suite;
}
