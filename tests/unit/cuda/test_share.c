/* Programs with a share of the device: whose streams keep to which multiprocessors, and what becomes of those without. */
#include "tests/unit/cuda/fixture.h"

#include <string.h>

static struct gpu_program *sharing(const char *owner, unsigned percent) {
  struct gpu_program *made;
  options.share = percent;
  options.owner = owner;
  made = gpu_program_new(device, chain, buffers, 2, &options, &problem);
  ck_assert_msg(made != NULL, "%s", problem.text);
  return made;
}

/* Of both slots. */
static unsigned groups_of(const struct gpu_program *of) {
  const struct cuda_program *cuda = (const struct cuda_program *)of;
  unsigned groups = fake_groups(cuda->slots[0].stream);
  ck_assert_uint_eq(fake_groups(cuda->slots[1].stream), groups);
  return groups;
}

static unsigned count(unsigned groups) { return (unsigned)__builtin_popcount(groups); }

START_TEST(shares_have_nothing_in_common_while_they_can) {
  make_chain(&plus_one, 0);
  struct gpu_program *third = sharing("a", 30), *rest = sharing("b", 70), *whole = sharing("", 0);
  struct gpu_share share;
  gpu_program_share(third, &share);
  ck_assert(share.processors == 40 && share.of == 132 && share.why[0] == '\0');
  ck_assert_uint_eq(count(groups_of(third)), 5);
  ck_assert_uint_eq(count(groups_of(rest)), 11);
  ck_assert_uint_eq(groups_of(third) & groups_of(rest), 0);
  ck_assert_uint_eq(groups_of(whole), 0);
  struct gpu_program *more = sharing("c", 50);
  ck_assert_uint_eq(count(groups_of(more)), 8);
  gpu_program_free(third);
  gpu_program_free(more);
  struct gpu_program *least = sharing("d", 1), *next = sharing("e", 25);
  ck_assert_uint_eq(count(groups_of(least)), 1); /* what was given back is given out again */
  ck_assert_uint_eq(count(groups_of(next)), 4);
  ck_assert_uint_eq(groups_of(least) | groups_of(next) | groups_of(rest), 0xFFFF);
  gpu_program_free(least);
  gpu_program_free(next);
  gpu_program_free(rest);
  gpu_program_free(whole);
}
END_TEST

START_TEST(programs_of_one_owner_have_one_share) {
  make_chain(&plus_one, 0);
  const unsigned before = fake_alive();
  struct gpu_program *one = sharing("a", 30), *other = sharing("a", 30), *larger = sharing("a", 40);
  const unsigned groups = groups_of(one);
  ck_assert_uint_eq(groups_of(other), groups);
  ck_assert_uint_eq(groups_of(larger) & groups, 0);
  gpu_program_free(one);
  ck_assert_uint_eq(groups_of(other), groups);
  gpu_program_free(other);
  gpu_program_free(larger);
  ck_assert_uint_eq(fake_alive(), before);
}
END_TEST

START_TEST(frames_go_through_streams_of_a_share) {
  options.share = 50;
  options.owner = "a";
  make_replaying(2, &plus_one, 0, false);
  ck_assert_uint_eq(count(groups_of(program)), 8);
  inputs[1][0] = 7;
  ck_assert(submit(1, 0, false));
  finish(1);
  ck_assert_uint_eq(outputs[1][0], 8);
}
END_TEST

static void has_the_whole_device(const struct gpu_program *of, const char *why) {
  struct gpu_share share;
  gpu_program_share(of, &share);
  ck_assert_uint_eq(share.processors, 0);
  ck_assert_msg(strstr(share.why, why) != NULL, "%s", share.why);
  ck_assert_uint_eq(groups_of(of), 0);
}

START_TEST(an_old_driver_gives_the_whole_device) {
  make_chain(&plus_one, 0);
  fake_set_ungreen();
  struct gpu_program *made = sharing("a", 30);
  has_the_whole_device(made, "older than that of CUDA 12.5");
  gpu_program_free(made);
}
END_TEST

START_TEST(a_driver_says_which_features_it_lacks) {
  static const struct {
    int version;
    const char *shares, *models;
  } drivers[] = {
      {0, "", ""}, /* there is none */
      {12020, "install driver 555 or later", "install driver 580 or later"},
      {12050, "", "the driver is made for CUDA 12.5"},
      {13000, "", ""},
  };
  struct gpu_lacks lacks = {.shares = ""};
  fake_set_driver(drivers[_i].version);
  cuda_find_lacks(&lacks);
  ck_assert_msg(strstr(lacks.shares, drivers[_i].shares) && !lacks.shares[0] == !drivers[_i].shares[0], "%s", lacks.shares);
  ck_assert_msg(strstr(lacks.models, drivers[_i].models) && !lacks.models[0] == !drivers[_i].models[0], "%s", lacks.models);
}
END_TEST

/* Ten calls make a share: the memory of the program first, then six functions and four calls of them. */
START_TEST(a_call_that_fails_costs_the_share_alone) {
  make_chain(&plus_one, 0);
  const unsigned before = fake_alive();
  fake_fail((unsigned)_i + 1, cudaErrorInvalidValue, false);
  struct gpu_program *made = sharing("a", 30);
  has_the_whole_device(made, _i < 6 ? "older" : "cudaError1");
  gpu_program_free(made);
  made = sharing("a", 30);
  ck_assert_uint_eq(count(groups_of(made)), 5);
  gpu_program_free(made);
  ck_assert_uint_eq(fake_alive(), before);
}
END_TEST

Suite *share_suite(void);

Suite *share_suite(void) {
  Suite *suite = suite_create("share");
  TCase *tests = tcase_create("share");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, shares_have_nothing_in_common_while_they_can);
  tcase_add_test(tests, programs_of_one_owner_have_one_share);
  tcase_add_test(tests, frames_go_through_streams_of_a_share);
  tcase_add_test(tests, an_old_driver_gives_the_whole_device);
  tcase_add_loop_test(tests, a_driver_says_which_features_it_lacks, 0, 4);
  tcase_add_loop_test(tests, a_call_that_fails_costs_the_share_alone, 0, 10);
  suite_add_tcase(suite, tests);
  return suite;
}
