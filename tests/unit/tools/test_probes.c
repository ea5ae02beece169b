/* What the probes make of /sys and /proc, in folders made for the purpose. */
#include "tools/framectl/doctor/probes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/runner.h"

static char root[] = "/tmp/framed-probes-XXXXXX";
static struct findings findings;
static struct probe probe;

static void setup(void) {
  memcpy(root + strlen(root) - 6, "XXXXXX", 6);
  ck_assert_ptr_nonnull(mkdtemp(root));
  findings = (struct findings){0};
  probe = (struct probe){.root = root, .pid = 42, .findings = &findings};
}

static void teardown(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", root);
  ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *path, const char *text) {
  char whole[256];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    mkdir(whole, 0777);
    *slash = '/';
  }
  FILE *file = fopen(whole, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  ck_assert_int_eq(fclose(file), 0);
}

/* The last finding is of this kind, and says so. */
static void expect(const char *check, enum verdict verdict, const char *part) {
  ck_assert_uint_gt(findings.count, 0);
  const struct finding *finding = &findings.items[findings.count - 1];
  ck_assert_str_eq(finding->check, check);
  ck_assert_msg(finding->verdict == verdict && strstr(finding->text, part), "%s: '%s' without '%s'",
                verdict_names[finding->verdict], finding->text, part);
  ck_assert(verdict == VERDICT_BETTER ? finding->remedy != NULL : verdict != VERDICT_FINE || finding->remedy == NULL);
}

START_TEST(governors) {
  probe_governor(&probe);
  expect("governor", VERDICT_UNKNOWN, "names none");
  write_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  write_file("/sys/devices/system/cpu/cpu9/cpufreq/scaling_governor", "performance\n");
  probe_governor(&probe);
  expect("governor", VERDICT_FINE, "2 processors");
  write_file("/sys/devices/system/cpu/cpu9/cpufreq/scaling_governor", "powersave\n");
  probe_governor(&probe);
  expect("governor", VERDICT_BETTER, "powersave on 1 of 2");
}
END_TEST

START_TEST(locked_memory) {
  probe_memlock(&probe, 1000000);
  expect("memlock", VERDICT_UNKNOWN, "cannot be read");
  write_file("/proc/42/limits", "Limit                     Soft Limit           Hard Limit           Units\n"
                                "Max open files            1024                 4096                 files\n"
                                "Max locked memory         8388608              8388608              bytes\n");
  probe_memlock(&probe, 1000000);
  expect("memlock", VERDICT_FINE, "8.4 MB");
  probe_memlock(&probe, 9000000);
  expect("memlock", VERDICT_BETTER, "8.4 MB may be locked, for 9.0 MB");
  write_file("/proc/42/limits", "Max locked memory         unlimited            unlimited            bytes\n");
  probe_memlock(&probe, 9000000);
  expect("memlock", VERDICT_FINE, "unlimited");
  write_file("/proc/42/limits", "Max locked memory         much\n");
  probe_memlock(&probe, 9000000);
  expect("memlock", VERDICT_UNKNOWN, "not a number");
  probe.pid = 0;
  probe_memlock(&probe, 9000000);
  expect("memlock", VERDICT_UNKNOWN, "cannot be read");
}
END_TEST

static struct nvml_gpu good_gpu(void) {
  return (struct nvml_gpu){.name = "GPU 0",
                           .address = "0000:18:00.0",
                           .knows_throttling = true,
                           .throttling = 1, /* idle */
                           .knows_link = true,
                           .generation = 5,
                           .generation_max = 5,
                           .width = 16,
                           .width_max = 16,
                           .knows_persistence = true,
                           .persistent = true,
                           .knows_processes = true,
                           .process_count = 1,
                           .processes = {42}};
}

static void expect_gpu(const struct nvml_gpu *gpu, const char *check, enum verdict verdict, const char *part) {
  findings = (struct findings){0};
  probe_gpu(&probe, gpu);
  ck_assert_uint_eq(findings.count, 5);
  while (findings.count > 0 && strcmp(findings.items[findings.count - 1].check, check) != 0) {
    findings.count--;
  }
  expect(check, verdict, part);
}

START_TEST(clocks_link_and_persistence) {
  struct nvml_gpu gpu = good_gpu();
  expect_gpu(&gpu, "clocks", VERDICT_FINE, "not held down");
  expect_gpu(&gpu, "link", VERDICT_FINE, "PCIe 5 x16");
  expect_gpu(&gpu, "persistence", VERDICT_FINE, "is on");
  gpu.throttling = NVML_HARDWARE_THERMAL;
  expect_gpu(&gpu, "clocks", VERDICT_BETTER, "too hot");
  gpu.throttling = NVML_POWER_CAP | 1;
  expect_gpu(&gpu, "clocks", VERDICT_BETTER, "limit of power");
  gpu.generation = 3;
  expect_gpu(&gpu, "link", VERDICT_BETTER, "PCIe 3 x16, where 5 x16");
  gpu.generation = 5;
  gpu.width = 8;
  expect_gpu(&gpu, "link", VERDICT_BETTER, "PCIe 5 x8");
  gpu.persistent = false;
  expect_gpu(&gpu, "persistence", VERDICT_BETTER, "is off");
  gpu.knows_throttling = gpu.knows_link = gpu.knows_persistence = false;
  expect_gpu(&gpu, "clocks", VERDICT_UNKNOWN, "does not say");
  expect_gpu(&gpu, "link", VERDICT_UNKNOWN, "does not say");
  expect_gpu(&gpu, "persistence", VERDICT_UNKNOWN, "does not say");
}
END_TEST

START_TEST(who_else_is_there) {
  struct nvml_gpu gpu = good_gpu();
  expect_gpu(&gpu, "others", VERDICT_FINE, "nobody else");
  gpu.process_count = 3;
  gpu.processes[0] = 7;
  gpu.processes[1] = 42;
  gpu.processes[2] = 8;
  write_file("/proc/8/comm", "pyt\033hon3\n");
  expect_gpu(&gpu, "others", VERDICT_BETTER, "take turns with those of process 7, 8 (pyt?hon3)");
  gpu.process_count = 1;
  expect_gpu(&gpu, "others", VERDICT_UNKNOWN, "not among the processes that the driver names there: 7");
  gpu.process_count = 0;
  expect_gpu(&gpu, "others", VERDICT_UNKNOWN, "not among the processes");
  gpu.knows_processes = false;
  expect_gpu(&gpu, "others", VERDICT_UNKNOWN, "does not say");
}
END_TEST

START_TEST(near_and_far_processors) {
  struct nvml_gpu gpu = good_gpu();
  expect_gpu(&gpu, "numa", VERDICT_UNKNOWN, "does not say which");
  write_file("/sys/bus/pci/devices/0000:18:00.0/numa_node", "-1\n");
  expect_gpu(&gpu, "numa", VERDICT_UNKNOWN, "does not say which");
  write_file("/sys/bus/pci/devices/0000:18:00.0/numa_node", "1\n");
  write_file("/sys/devices/system/node/node1/cpulist", "8-15,24\n");
  expect_gpu(&gpu, "numa", VERDICT_UNKNOWN, "cannot be read");
  write_file("/proc/42/status", "Name:\tframed\nCpus_allowed_list:\t9,24\n");
  expect_gpu(&gpu, "numa", VERDICT_FINE, "run on its node 1");
  write_file("/proc/42/status", "Name:\tframed\nCpus_allowed_list:\t0-15\n");
  expect_gpu(&gpu, "numa", VERDICT_BETTER, "far from its node 1");
  write_file("/proc/42/status", "Name:\tframed\nCpus_allowed_list:\tall\n");
  expect_gpu(&gpu, "numa", VERDICT_UNKNOWN, "cannot be read");
  write_file("/proc/42/status", "Name:\tframed\nCpus_allowed_list:\t3-99999999\n");
  expect_gpu(&gpu, "numa", VERDICT_UNKNOWN, "cannot be read");
}
END_TEST

START_TEST(too_many_findings_are_left_out) {
  for (int i = 0; i < 2 * FINDINGS_LIMIT; i++) {
    findings_add(&findings, "x", i % 2 ? VERDICT_FINE : VERDICT_BETTER, NULL, "%d", i);
  }
  ck_assert_uint_eq(findings.count, FINDINGS_LIMIT);
  ck_assert_uint_eq(findings.left_out, FINDINGS_LIMIT);
  ck_assert_uint_eq(findings_count(&findings, VERDICT_BETTER), FINDINGS_LIMIT / 2);
}
END_TEST

static void expect_slots(const struct nvml_gpu *gpus, unsigned count, enum verdict verdict, const char *part) {
  findings = (struct findings){0};
  probe_slots(&probe, gpus, count);
  ck_assert_uint_eq(findings.count, 1);
  expect("slots", verdict, part);
}

START_TEST(memory_of_the_slots) {
  struct nvml_gpu gpus[2] = {good_gpu(), good_gpu()};
  snprintf(gpus[1].address, sizeof gpus[1].address, "0000:19:00.0");
  expect_slots(gpus, 2, VERDICT_UNKNOWN, "cannot be read");
  write_file("/sys/bus/pci/devices/0000:18:00.0/numa_node", "1\n");
  expect_slots(gpus, 2, VERDICT_UNKNOWN, "cannot be read");
  write_file("/proc/42/numa_maps",
             "7f00 default file=/usr/lib/libc.so.6 mapped=2 N0=2 kernelpagesize_kB=4\n"
             "7f01 prefer:1 file=/memfd:framed:cam0.0:in\\040(deleted) dirty=100 N1=100 kernelpagesize_kB=4\n"
             "7f02 prefer:1 file=/memfd:framed:cam0.0:out\\040(deleted) dirty=150 active=0 N1=150 kernelpagesize_kB=4\n"
             "7f03 default file=/memfd:framed:cam0.0:control\\040(deleted) dirty=2 N0=2 kernelpagesize_kB=4\n"
             "7f04 default\n");
  expect_slots(gpus, 2, VERDICT_FINE, "their 1.0 MB lie on the GPU's node");
  write_file("/proc/42/numa_maps",
             "7f01 prefer:1 file=/memfd:framed:cam0.0:in\\040(deleted) dirty=100 N0=25 N1=100 kernelpagesize_kB=4\n"
             "7f02 prefer:1 file=/memfd:framed:cam0.0:out\\040(deleted) dirty=150 N1=50 N12=75 kernelpagesize_kB=4\n");
  expect_slots(gpus, 2, VERDICT_BETTER, "409.6 kB of their 1.0 MB lie on a node far");
  write_file("/sys/bus/pci/devices/0000:19:00.0/numa_node", "12\n");
  expect_slots(gpus, 2, VERDICT_BETTER, "409.6 kB of their 1.0 MB lie"); /* node 12 is near to another GPU only */
  write_file("/proc/42/numa_maps",
             "7f01 prefer:1 file=/memfd:framed:cam0.0:in\\040(deleted) dirty=100 N1=125 kernelpagesize_kB=4\n"
             "7f02 prefer:12 file=/memfd:framed:cam0.1:in\\040(deleted) dirty=100 N12=125 kernelpagesize_kB=4\n");
  expect_slots(gpus, 2, VERDICT_FINE, "their 1.0 MB lie");
  write_file("/proc/42/numa_maps",
             "7f01 default file=/memfd:framed:cam0.0:in\\040(deleted) dirty=100 N0=25 N12=225 kernelpagesize_kB=4\n");
  expect_slots(gpus, 2, VERDICT_BETTER, "102.4 kB of their 1.0 MB lie");
  write_file("/proc/42/numa_maps", "7f04 default\n");
  expect_slots(gpus, 2, VERDICT_UNKNOWN, "cannot be read");
  probe.pid = 0;
  expect_slots(gpus, 2, VERDICT_UNKNOWN, "cannot be read");
}
END_TEST

Suite *probes_suite(void);
Suite *probes_suite(void) {
  Suite *suite = suite_create("probes");
  TCase *cases = tcase_create("probes");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_add_test(cases, governors);
  tcase_add_test(cases, locked_memory);
  tcase_add_test(cases, clocks_link_and_persistence);
  tcase_add_test(cases, who_else_is_there);
  tcase_add_test(cases, near_and_far_processors);
  tcase_add_test(cases, too_many_findings_are_left_out);
  tcase_add_test(cases, memory_of_the_slots);
  suite_add_tcase(suite, cases);
  return suite;
}
