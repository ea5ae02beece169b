/* What the driver says of a device, against a library that only pretends: a device that says all, and one that says little. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool there, begins;
static const char *without; /* a function that the library has not */
static unsigned ends;

static void *fake_dlopen(const char *name, int flags);
static void *fake_dlsym(void *library, const char *name);
static int fake_dlclose(void *library);

#define dlopen           fake_dlopen
#define dlsym            fake_dlsym
#define dlclose          fake_dlclose
#define nvml_open        faked_open
#define nvml_close       faked_close
#define nvml_read        faked_read
#define nvml_add_trouble faked_add_trouble
#include "gpu/nvml.c"

static int fake_begin(void) { return begins ? 0 : 9; }

static int fake_end(void) {
  ends++;
  return 0;
}

static char all, little;

static int fake_find(const char *address, device_handle *device) {
  *device = (device_handle)(strcmp(address, "0000:18:00.0") == 0 ? &all : &little);
  return strcmp(address, "0000:ff:00.0") == 0 ? 6 : strcmp(address, "0000:fe:00.0") == 0 ? GPU_IS_LOST : 0;
}

static unsigned long long errors;
static unsigned pending_rows, failed_rows;

static int fake_errors(device_handle device, unsigned kind, unsigned since, unsigned long long *count) {
  ck_assert(kind == ERRORS_UNCORRECTED && since == SINCE_RESET);
  *count = errors;
  return (char *)device == &all ? 0 : 3;
}

static int fake_rows(device_handle device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  *corrected = *uncorrected = 5;
  *pending = pending_rows;
  *failed = failed_rows;
  return (char *)device == &all ? 0 : 3;
}

static int fake_utilization(device_handle device, struct utilization *utilization) {
  *utilization = (struct utilization){42, 7};
  return (char *)device == &all ? 0 : 3;
}

static int fake_memory(device_handle device, struct memory *memory) {
  (void)device;
  *memory = (struct memory){.total = 100, .available = 70, .used = 30};
  return 0;
}

static int fake_temperature(device_handle device, unsigned sensor, unsigned *celsius) {
  *celsius = sensor == SENSOR_GPU ? 61 : 0;
  return (char *)device == &all ? 0 : 3;
}

static int fake_power(device_handle device, unsigned *milliwatts) {
  *milliwatts = 312500;
  return (char *)device == &all ? 0 : 3;
}

static int fake_clock(device_handle device, unsigned which, unsigned *megahertz) {
  *megahertz = which == CLOCK_SM ? 1980 : which == CLOCK_MEMORY ? 3201 : 0;
  return (char *)device == &all ? 0 : 3;
}

/* -- the library --------------------------------------------------------------------------------------------------------- */

static void *fake_dlopen(const char *name, int flags) {
  (void)flags;
  return there && strcmp(name, "libnvidia-ml.so.1") == 0 ? &there : NULL;
}

static int fake_dlclose(void *library) { return library == &there ? 0 : 1; }

#define FUNCTION(name, function)                                                                                               \
  { name, (void (*)(void))(function) }

static void *fake_dlsym(void *library, const char *name) {
  static const struct {
    const char *name;
    void (*function)(void);
  } functions[] = {
      FUNCTION("nvmlInit_v2", fake_begin),
      FUNCTION("nvmlShutdown", fake_end),
      FUNCTION("nvmlDeviceGetHandleByPciBusId_v2", fake_find),
      FUNCTION("nvmlDeviceGetUtilizationRates", fake_utilization),
      FUNCTION("nvmlDeviceGetMemoryInfo", fake_memory),
      FUNCTION("nvmlDeviceGetTemperature", fake_temperature),
      FUNCTION("nvmlDeviceGetPowerUsage", fake_power),
      FUNCTION("nvmlDeviceGetClockInfo", fake_clock),
      FUNCTION("nvmlDeviceGetTotalEccErrors", fake_errors),
      FUNCTION("nvmlDeviceGetRemappedRows", fake_rows),
  };
  void *symbol = NULL;
  for (size_t i = 0; library && i < sizeof functions / sizeof functions[0]; i++) {
    if (strcmp(functions[i].name, name) == 0 && (!without || strcmp(without, name) != 0)) {
      memcpy(&symbol, &functions[i].function, sizeof symbol);
    }
  }
  return symbol;
}

static void set(bool is_there, bool does_begin, const char *lacks) {
  there = is_there;
  begins = does_begin;
  without = lacks;
  ends = 0;
}

START_TEST(a_device_says_all) {
  double figures[NVML_FIGURES];
  set(true, true, NULL);
  struct nvml *nvml = nvml_open();
  ck_assert_ptr_nonnull(nvml);
  nvml_read(nvml, "0000:18:00.0", figures);
  static const double expected[NVML_FIGURES] = {0.42, 30, 100, 61, 312.5, 1.98e9, 3.201e9};
  for (int i = 0; i < NVML_FIGURES; i++) {
    ck_assert_double_eq_tol(figures[i], expected[i], 1e-6);
  }
  nvml_close(nvml);
  ck_assert_uint_eq(ends, 1);
}
END_TEST

START_TEST(a_device_says_little_or_is_unknown) {
  double figures[NVML_FIGURES];
  set(true, true, NULL);
  struct nvml *nvml = nvml_open();
  nvml_read(nvml, "0000:19:00.0", figures);
  for (int i = 0; i < NVML_FIGURES; i++) {
    ck_assert_int_eq(isfinite(figures[i]) != 0, i == NVML_MEMORY_USED || i == NVML_MEMORY_TOTAL);
  }
  nvml_read(nvml, "0000:ff:00.0", figures);
  for (int i = 0; i < NVML_FIGURES; i++) {
    ck_assert(isnan(figures[i]));
  }
  nvml_close(nvml);
}
END_TEST

START_TEST(what_is_wrong_with_a_device_is_said) {
  static const struct {
    const char *address, *lacks, *says;
    unsigned long long errors;
    unsigned pending, failed;
  } cases[] = {
      {"0000:18:00.0", NULL, "", 0, 0, 0},
      {"0000:18:00.0", NULL, "3 errors of its memory", 3, 0, 0},
      {"0000:18:00.0", NULL, "exchanged by a reset", 3, 1, 0},
      {"0000:18:00.0", NULL, "no spare rows are left", 3, 1, 1},
      {"0000:18:00.0", "nvmlDeviceGetRemappedRows", "3 errors of its memory", 3, 1, 1},
      {"0000:18:00.0", "nvmlDeviceGetTotalEccErrors", "", 3, 0, 0},
      {"0000:19:00.0", NULL, "", 3, 1, 1},
      {"0000:fe:00.0", NULL, "fallen off the bus", 0, 0, 0},
      {"0000:ff:00.0", NULL, "", 3, 1, 1},
      {"", NULL, "", 3, 1, 1},
  };
  char text[100] = "it failed", narrow[60] = "it failed for a reason that has more words than room";
  set(true, true, cases[_i].lacks);
  errors = cases[_i].errors;
  pending_rows = cases[_i].pending;
  failed_rows = cases[_i].failed;
  nvml_add_trouble(cases[_i].address, text, sizeof text);
  nvml_add_trouble(cases[_i].address, narrow, sizeof narrow);
  ck_assert_ptr_eq(strstr(text, "it failed"), text);
  ck_assert_msg(cases[_i].says[0] ? strstr(text, cases[_i].says) != NULL : strcmp(text, "it failed") == 0, "%s", text);
  ck_assert_msg(!strstr(cases[_i].says, "bus") || strstr(narrow, "it has fallen off the bus: restart the machine"), "%s",
                narrow);
  ck_assert_uint_eq(ends, cases[_i].address[0] ? 2 : 0);
}
END_TEST

START_TEST(a_library_may_be_absent_or_of_no_use) {
  set(false, true, NULL);
  ck_assert_ptr_null(nvml_open());
  set(true, false, NULL);
  ck_assert_ptr_null(nvml_open());
  set(true, true, "nvmlDeviceGetClockInfo");
  ck_assert_ptr_null(nvml_open());
  ck_assert_uint_eq(ends, 0);
  nvml_close(NULL);
}
END_TEST

Suite *nvml_suite(void);

Suite *nvml_suite(void) {
  Suite *suite = suite_create("nvml");
  TCase *cases = tcase_create("nvml");
  tcase_add_test(cases, a_device_says_all);
  tcase_add_test(cases, a_device_says_little_or_is_unknown);
  tcase_add_loop_test(cases, what_is_wrong_with_a_device_is_said, 0, 10);
  tcase_add_test(cases, a_library_may_be_absent_or_of_no_use);
  suite_add_tcase(suite, cases);
  return suite;
}
