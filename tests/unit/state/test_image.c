/* The image: a record is found by its address as long as it is its owner's, and damage is never read beyond what is there. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/state/image.h"

enum { BYTES = 700, LARGE = 3 * 1024 * 1024, PAGE = 4096 };

static void look(void) { ck_assert(image_open_left(dup(image_fd()))); }

START_TEST(a_record_is_found_by_its_address) {
  unsigned char *one = image_new(IMAGE_READER, BYTES), *other = image_new(IMAGE_SINK, BYTES);
  memset(one, 1, BYTES);
  look();
  size_t bytes = 0;
  const unsigned char *left = image_left(one, IMAGE_READER, &bytes);
  ck_assert(left && left != one && bytes == BYTES && memcmp(left, one, BYTES) == 0);
  ck_assert_ptr_eq(image_left_at(one, IMAGE_READER, BYTES), left);
  ck_assert_ptr_null(image_left(one, IMAGE_SINK, &bytes));
  ck_assert_ptr_null(image_left_at(one, IMAGE_SINK, BYTES));
  ck_assert_ptr_null(image_left_at(one, IMAGE_READER, BYTES + 1));
  ck_assert_ptr_null(image_left_at(one + PAGE / 2, IMAGE_READER, BYTES));
  ck_assert_ptr_null(image_left_at(NULL, IMAGE_READER, BYTES));
  image_free(one);
  image_free(other);
  image_close_left();
}
END_TEST

START_TEST(another_owner_finds_nothing_of_the_one_before) {
  static const size_t sizes[] = {BYTES, LARGE};
  unsigned char *one = image_new(IMAGE_ROOM, sizes[_i]);
  size_t bytes;
  memset(one, 1, sizes[_i]);
  image_free(one);
  look();
  ck_assert_ptr_null(image_left(one, IMAGE_ROOM, &bytes));
  unsigned char *next = image_new(IMAGE_ROOM, sizes[_i]);
  ck_assert_ptr_eq(next, one);
  for (size_t i = 0; i < sizes[_i]; i += 99) {
    ck_assert(next[i] == 0);
  }
  ck_assert(image_left(next, IMAGE_ROOM, &bytes) && bytes == sizes[_i]);
  image_free(next);
  image_close_left();
}
END_TEST

/* How much of the memory that is called so a core would take, with its holes. */
static size_t dumped(void) {
  FILE *maps = fopen("/proc/self/smaps", "r");
  char line[512];
  size_t all = 0, one = 0;
  unsigned long begin, end;
  ck_assert_ptr_nonnull(maps);
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
      one = strstr(line, "framed:image") ? end - begin : 0;
    }
    all += strncmp(line, "VmFlags:", 8) == 0 && !strstr(line, " dd") ? one : 0;
  }
  fclose(maps);
  return all;
}

START_TEST(a_core_takes_what_was_used) {
  void *one = image_new(IMAGE_ROOM, LARGE);
  ck_assert_uint_ge(dumped(), LARGE);
  look();
  ck_assert_uint_le(dumped(), 3 * LARGE);
  image_free(one);
  image_close_left();
}
END_TEST

START_TEST(more_than_there_can_be_is_refused) {
  ck_assert_ptr_null(image_new(IMAGE_ROOM, (size_t)1 << 40));
  ck_assert_ptr_null(image_new(IMAGE_ROOM, SIZE_MAX));
}
END_TEST

START_TEST(an_address_may_be_anything) {
  void *record = image_new(IMAGE_READER, BYTES);
  look();
  for (unsigned bit = 0; bit < 64; bit++) {
    ck_assert_ptr_null(image_left_at((void *)((uintptr_t)record ^ (uintptr_t)1 << bit), IMAGE_READER, BYTES));
  }
  image_free(record);
  image_close_left();
}
END_TEST

START_TEST(what_is_none_is_not_looked_into) {
  int other = memfd_create("other", 0), empty = memfd_create("empty", 0);
  ck_assert_int_eq(ftruncate(other, LARGE), 0);
  ck_assert(!image_open_left(other));
  ck_assert(!image_open_left(empty));
  image_free(image_new(IMAGE_SINK, BYTES));
  look();
  image_disown();
  ck_assert(!image_open_left(dup(image_fd())));
  image_close_left();
}
END_TEST

Suite *image_suite(void);

Suite *image_suite(void) {
  Suite *suite = suite_create("image");
  TCase *cases = tcase_create("all");
  tcase_add_test(cases, a_record_is_found_by_its_address);
  tcase_add_loop_test(cases, another_owner_finds_nothing_of_the_one_before, 0, 2);
  tcase_add_test(cases, a_core_takes_what_was_used);
  tcase_add_test(cases, more_than_there_can_be_is_refused);
  tcase_add_test(cases, an_address_may_be_anything);
  tcase_add_test(cases, what_is_none_is_not_looked_into);
  suite_add_tcase(suite, cases);
  return suite;
}
