/* The state memory: whole it is what was written; damaged in any way it is none. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/state/state.h"

enum { DAMAGES = 10000, LENGTH = 5000 };

static uint64_t number; /* of a generator that gives the same numbers at every run */

static unsigned draw(unsigned below) {
  number = number * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(number >> 33) % below;
}

static int write_state(void) {
  struct codec codec;
  struct failure failure;
  unsigned char bytes[LENGTH];
  for (unsigned i = 0; i < LENGTH; i++) {
    bytes[i] = (unsigned char)draw(256);
  }
  codec_begin(&codec);
  codec_pass(&codec, bytes, sizeof bytes);
  int fd = state_write(&codec, &failure);
  ck_assert_msg(fd >= 0, "%s", failure.text);
  codec_clear(&codec);
  return fd;
}

static bool is_read(int fd) {
  struct codec codec;
  struct failure failure = {.text = ""};
  bool whole = state_read(fd, &codec, &failure);
  ck_assert_msg(whole || failure.text[0], "there is no sentence");
  if (whole) {
    codec_clear(&codec);
  }
  return whole;
}

static size_t size_of(int fd) {
  struct stat status;
  ck_assert_int_eq(fstat(fd, &status), 0);
  return (size_t)status.st_size;
}

START_TEST(what_is_written_is_read) {
  struct codec codec;
  struct failure failure;
  uint64_t value = 42;
  codec_begin(&codec);
  CODEC_PASS(&codec, value);
  int fd = state_write(&codec, &failure);
  codec_clear(&codec);
  ck_assert(state_read(fd, &codec, &failure));
  value = 0;
  CODEC_PASS(&codec, value);
  ck_assert(!codec.broken && value == 42);
  codec_clear(&codec);
  close(fd);
}
END_TEST

/* One to eight bytes become others. */
static void change_bytes(int fd) {
  unsigned count = 1 + draw(8);
  for (unsigned i = 0; i < count; i++) {
    off_t at = draw((unsigned)size_of(fd));
    unsigned char byte;
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= (unsigned char)(i == 0 ? 1U << draw(8) : draw(256));
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
  }
}

START_TEST(damaged_in_any_way_it_is_none) {
  number = 1;
  int whole = write_state();
  size_t size = size_of(whole);
  unsigned char *bytes = malloc(size), *now = malloc(size);
  ck_assert_int_eq(pread(whole, bytes, size, 0), (ssize_t)size);
  for (unsigned i = 0; i < DAMAGES; i++) {
    if (i % 4 == 0) {
      ck_assert_int_eq(ftruncate(whole, draw((unsigned)size)), 0);
    } else if (i % 4 == 1) {
      ck_assert_int_eq(ftruncate(whole, (off_t)size + 1 + draw(100)), 0);
    } else {
      change_bytes(whole);
      ck_assert_int_eq(pread(whole, now, size, 0), (ssize_t)size);
    }
    /* Two changes may cancel each other out. */
    ck_assert(!is_read(whole) || (i % 4 > 1 && memcmp(bytes, now, size) == 0));
    ck_assert_int_eq(ftruncate(whole, (off_t)size), 0);
    ck_assert_int_eq(pwrite(whole, bytes, size, 0), (ssize_t)size);
    ck_assert(i % 100 != 0 || is_read(whole));
  }
  free(bytes);
  free(now);
  close(whole);
}
END_TEST

START_TEST(the_version_is_the_same_at_every_question) {
  char one[STATE_VERSION_TEXT], other[STATE_VERSION_TEXT];
  ck_assert_str_eq(state_version(one), state_version(other));
  ck_assert_ptr_nonnull(strchr(one, '.'));
}
END_TEST

Suite *state_suite(void);

Suite *state_suite(void) {
  Suite *suite = suite_create("state");
  TCase *all = tcase_create("all");
  tcase_set_timeout(all, 120);
  tcase_add_test(all, what_is_written_is_read);
  tcase_add_test(all, damaged_in_any_way_it_is_none);
  tcase_add_test(all, the_version_is_the_same_at_every_question);
  suite_add_tcase(suite, all);
  return suite;
}
