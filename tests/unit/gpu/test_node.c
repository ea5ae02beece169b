/* What is made of the kernel's word on a device's NUMA node, in a folder like its own. */
#include "gpu/backend.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static char folder[] = "/tmp/framed-node-XXXXXX", device[64], file[96];

static void set_up(void) {
  memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(device, sizeof device, "%s/0000:18:00.0", folder);
  snprintf(file, sizeof file, "%s/numa_node", device);
  ck_assert_int_eq(mkdir(device, 0700), 0);
}

static void tear_down(void) {
  unlink(file);
  rmdir(device);
  rmdir(folder);
}

static void say(const char *text) {
  FILE *kernel = fopen(file, "w");
  ck_assert_ptr_nonnull(kernel);
  fputs(text, kernel);
  ck_assert_int_eq(fclose(kernel), 0);
}

START_TEST(the_kernel_names_a_node) {
  say("0\n");
  ck_assert_int_eq(gpu_pci_node(folder, "0000:18:00.0"), 0);
  say("7\n");
  ck_assert_int_eq(gpu_pci_node(folder, "0000:18:00.0"), 7);
  ck_assert_int_eq(gpu_pci_node(folder, "0000:19:00.0"), GPU_NO_NODE);
}
END_TEST

START_TEST(the_kernel_names_none) {
  static const char *const texts[] = {"-1\n", "", "\n", "node\n", "99999999999999999999\n", "4294967296\n"};
  ck_assert_int_eq(gpu_pci_node(folder, "0000:18:00.0"), GPU_NO_NODE);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    say(texts[i]);
    ck_assert_int_eq(gpu_pci_node(folder, "0000:18:00.0"), GPU_NO_NODE);
  }
}
END_TEST

START_TEST(processors_have_no_node) {
  struct gpu_error error;
  struct gpu_device *cpu = gpu_open(GPU_BACKEND_CPU, 0, 1, &error);
  ck_assert_ptr_nonnull(cpu);
  ck_assert_int_eq(gpu_node(cpu), GPU_NO_NODE);
  gpu_close(cpu);
}
END_TEST

Suite *node_suite(void);

Suite *node_suite(void) {
  Suite *suite = suite_create("node");
  TCase *group = tcase_create("nodes");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_add_test(group, the_kernel_names_a_node);
  tcase_add_test(group, the_kernel_names_none);
  tcase_add_test(group, processors_have_no_node);
  suite_add_tcase(suite, group);
  return suite;
}
