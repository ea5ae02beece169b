/* Two devices of the fake runtime as one: each has its own part of the slots, and every call of theirs fails in turn. */
#include "tests/unit/cuda/fake_world.h"
#include "tests/unit/cuda/fixture.h"

#include <string.h>

enum { SLOTS = 4 };

static struct gpu_device *second, *joint;

static void join_devices(void) {
  second = cuda_open(1, &(const struct gpu_calibration){0}, &problem);
  joint = gpu_join((struct gpu_device *[]){device, second}, 2, &problem);
  ck_assert(second && joint);
}

static void part(void) {
  joint = gpu_close(joint);
  second = gpu_close(second);
}

START_TEST(slots_belong_to_the_devices_in_turn) {
  struct gpu_usage usage;
  join_devices();
  make_chain(&plus_one, 0);
  ck_assert(gpu_pin(joint, inputs, sizeof inputs, &problem));
  program = gpu_program_new(joint, chain, buffers, SLOTS, &options, &problem);
  ck_assert(program && gpu_program_warm_up(program, &problem));
  for (unsigned i = 0; i < 2; i++) {
    gpu_usage(i == 0 ? device : second, &usage);
    ck_assert_uint_eq(usage.allocated, gpu_chain_device_bytes(chain, SLOTS / 2));
    ck_assert_uint_eq(usage.pinned, i == 0 ? sizeof inputs : 0);
  }
  for (uint64_t frame = 0; frame < 3 * SLOTS; frame++) {
    unsigned slot = frame % SLOTS;
    inputs[slot][1] = (unsigned char)frame;
    ck_assert(submit(slot, frame, frame % 3 == 0));
    finish(slot);
    ck_assert_uint_eq(outputs[slot][1], frame + 1);
  }
  program = gpu_program_free(program);
  gpu_unpin(joint, inputs, sizeof inputs);
  part();
}
END_TEST

START_TEST(a_program_fails_cleanly_at_every_call) {
  unsigned tries = 0;
  bool over = false;
  join_devices();
  make_chain(&plus_one, 0);
  unsigned before = fake_alive();
  while (!over) {
    fake_fail(tries++, cudaErrorInvalidValue, false);
    program = gpu_program_new(joint, chain, buffers, SLOTS, &options, &problem);
    over = fake_heal();
    ck_assert(program || !over);
    ck_assert(program || strstr(problem.text, "cudaError1"));
    program = gpu_program_free(program);
    ck_assert_uint_le(fake_alive(), before);
  }
  ck_assert_uint_gt(tries, 20);
  part();
}
END_TEST

Suite *joint_suite(void);
Suite *joint_suite(void) {
  Suite *suite = suite_create("joint");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, set_up, tear_down);
  tcase_add_test(all, slots_belong_to_the_devices_in_turn);
  tcase_add_test(all, a_program_fails_cleanly_at_every_call);
  suite_add_tcase(suite, all);
  return suite;
}
