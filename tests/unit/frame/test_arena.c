/* Where an arena's pages come from, and that nothing hangs on it. */
#include "daemon/frame/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/device/private.h"
#include "tests/unit/runner.h"

enum {
  BYTES = 1 << 20,
  HUGE_PAGE = 2 << 20,
  LARGE = 5 * (1 << 20) + 4096,
  PAGE = 4096,
  FAR = 5000,
  WORD = 8 * sizeof(unsigned long),
  MOST = 1024
};

static struct device *device;
static struct arena arena;
static struct failure failure;

static void set_up(void) {
  struct gpu_error error;
  device = device_open(&(struct device_setup){.choice = GPU_BACKEND_CPU, .workers = 1}, &error);
  ck_assert_ptr_nonnull(device);
}

static void tear_down(void) { device = device_close(device); }

static void make_large(size_t bytes) {
  ck_assert_msg(arena_make(&arena, "test", bytes, 1, device, &failure), "%s", failure.text);
}

static void make(void) { make_large(BYTES); }

static void expect_pages(void) {
  static unsigned char there[LARGE / PAGE];
  const size_t pages = arena.bytes / PAGE;
  ck_assert_int_eq(mincore(arena.base, arena.bytes, there), 0);
  for (size_t i = 0; i < pages; i++) {
    ck_assert(there[i] & 1);
  }
}

/* The policy of the memory, seen through a mapping of its own; false: the kernel has none. */
static bool read_policy(int *mode, unsigned long nodes[MOST / WORD]) {
  unsigned char *view = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, arena.fd, 0);
  ck_assert_ptr_ne(view, MAP_FAILED);
  bool knows = syscall(SYS_get_mempolicy, mode, nodes, MOST + 1UL, view + BYTES / 2, MPOL_F_ADDR) == 0;
  ck_assert(knows || errno == ENOSYS || errno == EPERM);
  munmap(view, BYTES);
  return knows;
}

START_TEST(pages_come_from_the_devices_node) {
  int mode = -1;
  unsigned long nodes[MOST / WORD] = {0};
  device->is.node = 0; /* which every machine has */
  make();
  expect_pages();
  if (read_policy(&mode, nodes)) {
    ck_assert_int_eq(mode, MPOL_PREFERRED);
    ck_assert_uint_eq(nodes[0], 1);
  }
  arena_drop(&arena);
}
END_TEST

/* Each slot's pages from the node of its device, of which here one is known. */
START_TEST(pages_come_from_the_nodes_of_joined_devices) {
  struct gpu_error error;
  struct device *other = device_open(&(struct device_setup){.choice = GPU_BACKEND_CPU, .index = 1, .workers = 1}, &error);
  struct device *joint = device_join((struct device *[]){other, device}, 2, &error);
  ck_assert(other && joint);
  device->is.node = 0;
  ck_assert_msg(arena_make(&arena, "test", BYTES / 4, 4, joint, &failure), "%s", failure.text);
  expect_pages();
  for (unsigned slot = 0; slot < 4; slot++) {
    int mode = -1;
    void *at = arena.base + slot * (BYTES / 4);
    ck_assert_int_eq(device_node(joint, slot), slot % 2 ? 0 : GPU_NO_NODE);
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0UL, at, MPOL_F_ADDR) == 0) {
      ck_assert_int_eq(mode, slot % 2 ? MPOL_PREFERRED : MPOL_DEFAULT);
    }
  }
  arena_drop(&arena);
  device_close(joint);
  device_close(other);
}
END_TEST

/* None, and nodes that no machine has: the kernel refuses the first of them, and the second is more than it is asked. */
START_TEST(other_nodes_change_nothing) {
  static const int others[] = {GPU_NO_NODE, MOST - 1, MOST, FAR};
  int mode = -1;
  unsigned long nodes[MOST / WORD] = {0};
  device->is.node = others[_i];
  make();
  expect_pages();
  if (read_policy(&mode, nodes)) {
    ck_assert_int_eq(mode, MPOL_DEFAULT);
  }
  arena_drop(&arena);
}
END_TEST

static void refuse(unsigned call) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
  ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(a_filter_that_refuses_is_no_error) {
  device->is.node = 0;
  refuse(_i ? SYS_madvise : SYS_mbind);
  make_large(_i ? LARGE : BYTES);
  expect_pages();
  memset(arena.base, 1, arena.bytes);
  arena_drop(&arena);
}
END_TEST

/* Kilobytes of this process's memory that are mapped as huge pages of a memfd. */
static unsigned long read_huge(void) {
  unsigned long kilobytes = 0, sum = 0;
  char line[256];
  FILE *file = fopen("/proc/self/smaps", "re");
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file)) {
    sum += sscanf(line, "ShmemPmdMapped: %lu", &kilobytes) == 1 ? kilobytes : 0;
  }
  fclose(file);
  return sum;
}

/* Whatever the kernel makes of it, all pages are there, new ones are empty, and what surrounds the mapping is given back. */
START_TEST(large_memory_begins_where_a_huge_page_may) {
  struct arena heir;
  make_large(LARGE);
  ck_assert_int_eq(msync(arena.base + LARGE, PAGE, MS_ASYNC), -1);
  expect_pages();
  unsigned long huge = read_huge();
  ck_assert_msg(huge % (HUGE_PAGE >> 10) == 0 && huge <= LARGE / HUGE_PAGE * HUGE_PAGE >> 10, "%lu KiB are huge", huge);
  ck_assert_uint_eq((uintptr_t)arena.base % HUGE_PAGE, 0);
  for (size_t i = 0; i < LARGE; i += PAGE) {
    ck_assert_uint_eq(arena.base[i], 0);
    arena.base[i] = (unsigned char)(i / PAGE);
  }
  int fd = fcntl(arena.fd, F_DUPFD_CLOEXEC, 0);
  arena_drop(&arena);
  ck_assert_msg(arena_adopt(&heir, "test", LARGE, 1, fd, device, &failure), "%s", failure.text);
  arena = heir;
  expect_pages();
  ck_assert_uint_eq(read_huge(), huge);
  for (size_t i = 0; i < LARGE; i += PAGE) {
    ck_assert_uint_eq(arena.base[i], (unsigned char)(i / PAGE));
  }
  arena_drop(&arena);
}
END_TEST

START_TEST(adopted_memory_keeps_what_it_holds_and_its_policy) {
  int mode = -1;
  unsigned long nodes[MOST / WORD] = {0};
  struct arena heir;
  device->is.node = 0;
  make();
  memset(arena.base, 7, BYTES);
  int fd = fcntl(arena.fd, F_DUPFD_CLOEXEC, 0);
  arena_drop(&arena);
  ck_assert_msg(arena_adopt(&heir, "test", BYTES, 1, fd, device, &failure), "%s", failure.text);
  arena = heir;
  ck_assert_int_eq(arena.base[0], 7);
  ck_assert_int_eq(arena.base[BYTES - 1], 7);
  if (read_policy(&mode, nodes)) {
    ck_assert_int_eq(mode, MPOL_PREFERRED);
  }
  arena_drop(&arena);
}
END_TEST

/* Not with a descriptor, and not with a mapping; that the file keeps its size is the seals' business. */
START_TEST(of_what_is_given_up_nobody_keeps_pages) {
  struct stat status;
  make();
  memset(arena.base, 7, BYTES);
  int fd = fcntl(arena.fd, F_DUPFD_CLOEXEC, 0);
  unsigned char *view = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
  ck_assert_ptr_ne(view, MAP_FAILED);
  arena_discard(&arena);
  arena_discard(&arena); /* once */
  ck_assert_int_eq(arena.fd, -1);
  ck_assert_int_eq(fstat(fd, &status), 0);
  ck_assert_int_eq(status.st_blocks, 0);
  ck_assert_int_eq(status.st_size, BYTES);
  ck_assert_int_eq(view[0], 0);
  ck_assert_int_eq(view[BYTES - 1], 0);
  munmap(view, BYTES);
  close(fd);
}
END_TEST

Suite *arena_suite(void);

Suite *arena_suite(void) {
  Suite *suite = suite_create("arena");
  TCase *group = tcase_create("nodes");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_add_test(group, pages_come_from_the_devices_node);
  tcase_add_test(group, pages_come_from_the_nodes_of_joined_devices);
  tcase_add_loop_test(group, other_nodes_change_nothing, 0, 4);
  tcase_add_loop_test(group, a_filter_that_refuses_is_no_error, 0, 2);
  tcase_add_test(group, large_memory_begins_where_a_huge_page_may);
  tcase_add_test(group, adopted_memory_keeps_what_it_holds_and_its_policy);
  tcase_add_test(group, of_what_is_given_up_nobody_keeps_pages);
  suite_add_tcase(suite, group);
  return suite;
}
