/* kernel: what a kernel's name in the code tells of its arguments, and what files are taken for code. */
#include "gpu/stages/kernel/private.h"
#include "tests/unit/runner.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct kernel_signature signature;
static char problem[STAGE_TEXT];

static struct stage_setting number(const char *name, double value) {
  return (struct stage_setting){.name = name, .count = 1, .numbers = {value}};
}

/* Holds a kernel of that name in the code against the settings. */
static bool match(const char *code, const struct stage_setting *settings, unsigned count) {
  char text[KERNEL_SYMBOL];
  snprintf(text, sizeof text, ".visible .entry %s(\n", code);
  const struct kernel_code bytes = {.bytes = text, .size = strlen(text)};
  const struct stage_value value = {.settings = settings, .setting_count = count};
  return kernel_match(&bytes, "mine.cu", "invert", &value, &signature, problem);
}

START_TEST(arguments_have_the_types_of_the_kernel) {
  const struct stage_setting settings[] = {number("gain", 1.5), number("level", 0.25), number("radius", -3), number("wide", 7),
                                           number("flag", 1)};
  ck_assert_msg(match("_Z6invert9framed_in10framed_outfdixb", settings, 5), "%s", problem);
  float gain;
  double level;
  int32_t radius;
  int64_t wide;
  memcpy(&gain, signature.arguments[0].bytes, sizeof gain);
  memcpy(&level, signature.arguments[1].bytes, sizeof level);
  memcpy(&radius, signature.arguments[2].bytes, sizeof radius);
  memcpy(&wide, signature.arguments[3].bytes, sizeof wide);
  ck_assert_uint_eq(signature.count, 5);
  ck_assert_str_eq(signature.symbol, "_Z6invert9framed_in10framed_outfdixb");
  ck_assert(gain == 1.5F && level == 0.25 && radius == -3 && wide == 7 && signature.arguments[4].bytes[0] == 1);
}
END_TEST

/* The second float3 is written as a reference to the first. */
START_TEST(lists_become_vectors) {
  const struct stage_setting settings[] = {{.name = "low", .count = 3, .numbers = {1, 2, 3}},
                                           {.name = "high", .count = 3, .numbers = {4, 5, 6}},
                                           {.name = "size", .count = 2, .numbers = {7, 8}}};
  ck_assert_msg(match("_Z6invert9framed_in10framed_out6float3S1_4int2", settings, 3), "%s", problem);
  float high[3];
  int32_t size[2];
  memcpy(high, signature.arguments[1].bytes, sizeof high);
  memcpy(size, signature.arguments[2].bytes, sizeof size);
  ck_assert(high[0] == 4 && high[2] == 6 && size[0] == 7 && size[1] == 8);
}
END_TEST

START_TEST(what_does_not_fit_is_named) {
  static const struct {
    const char *code;
    double value;
    const char *said;
  } cases[] = {
      {"_Z6invert9framed_in10framed_outi", 1.5, "'gain' is of type int"},
      {"_Z6invert9framed_in10framed_outh", 256, "'gain' is of type unsigned char"},
      {"_Z6invert9framed_in10framed_out6float2", 1, "'gain' is of type float2"},
      {"_Z6invert9framed_in10framed_out", 1, "takes 0 parameters, and 1 are given"},
      {"_Z6invert9framed_in10framed_outff", 1, "more than the 1 given"},
      {"_Z6invert9framed_in10framed_outPf", 1, "argument 3 of the kernel 'invert' is of a type"},
      {"_Z6invertPKhPh", 1, "do not begin with framed_in and framed_out"},
      {"invert", 1, "extern \"C\""},
      {"_Z5other9framed_in10framed_outf", 1, "there is no kernel 'invert'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct stage_setting setting = number("gain", cases[i].value);
    ck_assert_msg(!match(cases[i].code, &setting, 1), "%s", cases[i].code);
    ck_assert_msg(strstr(problem, cases[i].said), "%s: %s", cases[i].code, problem);
  }
}
END_TEST

static enum kernel_kind kind_of(const char *bytes, size_t size) {
  char path[] = "/tmp/framed-kernel-XXXXXX";
  struct kernel_code code;
  struct kept_file kept = {0};
  enum kernel_kind kind;
  int fd = mkstemp(path);
  ck_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
  bool read = kernel_read(path, &kept, &code, &kind, problem);
  unlink(path);
  kept_close(&kept);
  ck_assert_msg(read, "%s", problem);
  ck_assert_uint_eq(code.size, size);
  ck_assert_uint_eq(kernel_most_threads(&code, "x"), KERNEL_UNKNOWN);
  free(code.bytes);
  return kind;
}

START_TEST(files_are_known_by_what_is_in_them) {
  char cubin[64] = "\x7f"
                   "ELF";
  static const char source[] = "#include <framed-kernel.h>\n/* .version and .target */\n";
  static const char ptx[] = "//\n.version 9.0\n.target sm_75\n";
  cubin[18] = (char)190; /* the machine; its sections lie nowhere */
  memset(cubin + 40, 0x7f, 24);
  ck_assert_int_eq(kind_of(source, sizeof source - 1), KERNEL_SOURCE);
  ck_assert_int_eq(kind_of(ptx, sizeof ptx - 1), KERNEL_CODE);
  ck_assert_int_eq(kind_of(cubin, sizeof cubin), KERNEL_CODE);
  ck_assert_int_eq(kind_of("P\xed\x55\xba....", 8), KERNEL_CODE);
  ck_assert_int_eq(kind_of("", 0), KERNEL_SOURCE);
}
END_TEST

/* The process and the next one after a fault have the same place in a file that is kept. */
START_TEST(a_file_that_is_kept_is_read_without_moving_it) {
  static const char source[] = "#include <framed-kernel.h>\n";
  struct kernel_code code;
  struct kept_file kept = {0};
  enum kernel_kind kind;
  int fd = memfd_create("source", MFD_CLOEXEC);
  ck_assert(fd >= 0 && write(fd, source, sizeof source) == sizeof source && lseek(fd, 3, SEEK_SET) == 3);
  kept_remember("own.cu", fd);
  ck_assert_msg(kernel_read("own.cu", &kept, &code, &kind, problem), "%s", problem);
  ck_assert(code.size == sizeof source && memcmp(code.bytes, source, sizeof source) == 0);
  ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 3);
  free(code.bytes);
  kept_close(&kept);
  kept_forget();
}
END_TEST

/* Who keeps it is gone by then: only its descriptor is left. */
static void remember(struct kept_file *kept) {
  kept_remember(kept->path, dup(kept->descriptor));
  kept_close(kept);
}

START_TEST(what_was_compiled_serves_its_architecture) {
  struct kernel_code code = {.bytes = (char[]){"compiled"}, .size = 8}, found;
  struct kept_file kept = {0};
  int architecture = KERNEL_UNKNOWN;
  ck_assert(!kernel_find_compiled("./own.cu", &architecture, &found));
  kernel_keep_compiled("./own.cu", 90, &code, &kept);
  remember(&kept);
  architecture = 80;
  ck_assert(!kernel_find_compiled("./own.cu", &architecture, &found));
  ck_assert(!kernel_find_compiled("./own", &architecture, &found));
  architecture = KERNEL_UNKNOWN;
  ck_assert(kernel_find_compiled("./own.cu", &architecture, &found));
  ck_assert_int_eq(architecture, 90);
  ck_assert(found.size == 8 && memcmp(found.bytes, "compiled", 9) == 0);
  free(found.bytes);
  kept_forget();
}
END_TEST

START_TEST(what_was_compiled_for_no_number_is_not_used) {
  static const char *const endings[] = {"", "x", "9x", "-90", "99999999999"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    char path[128];
    struct kernel_code found = {0};
    struct kept_file kept = {0};
    int architecture = KERNEL_UNKNOWN;
    snprintf(path, sizeof path, "own.cu/" FRAMED_VERSION "/sm_%s", endings[i]);
    ck_assert(kept_copy(&kept, path, "compiled", 8));
    remember(&kept);
    ck_assert_msg(!kernel_find_compiled("own.cu", &architecture, &found), "sm_%s", endings[i]);
    kept_forget();
  }
}
END_TEST

Suite *kernel_suite(void);

Suite *kernel_suite(void) {
  Suite *suite = suite_create("kernel");
  TCase *group = tcase_create("arguments");
  tcase_add_test(group, arguments_have_the_types_of_the_kernel);
  tcase_add_test(group, lists_become_vectors);
  tcase_add_test(group, what_does_not_fit_is_named);
  tcase_add_test(group, files_are_known_by_what_is_in_them);
  tcase_add_test(group, a_file_that_is_kept_is_read_without_moving_it);
  tcase_add_test(group, what_was_compiled_serves_its_architecture);
  tcase_add_test(group, what_was_compiled_for_no_number_is_not_used);
  suite_add_tcase(suite, group);
  return suite;
}
