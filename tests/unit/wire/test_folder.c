/* Files in folders of another user: which links are followed, and what is opened there. */
#include "daemon/wire/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/runner.h"

enum { NOBODY = 65534 };

static char top[64];
static struct folder_entry entry;

/* An entry goes on to use its path. */
static const char *at(const char *name) {
  static char paths[8][128];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", top, name);
  return path;
}

static void make_top(void) {
  umask(022); /* an ordinary user's may be 002, and a folder that a group may write to is not guarded */
  snprintf(top, sizeof top, "/tmp/framed-unit-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(top));
  ck_assert_int_eq(mkdir(at("there"), 0755), 0);
  entry = FOLDER_ENTRY_NONE;
}

static void remove_top(void) {
  char command[96];
  folder_leave(&entry);
  snprintf(command, sizeof command, "rm -rf %s", top);
  ck_assert_int_eq(system(command), 0);
}

/* Only root can give files away. */
static bool give_away(const char *name) { return lchown(at(name), NOBODY, NOBODY) == 0; }

START_TEST(folders_that_are_missing_are_made) {
  ck_assert(!folder_find(at("a/b/file"), false, &entry) && errno == ENOENT && entry.folder == -1);
  ck_assert(folder_find(at("a/./b//file"), true, &entry));
  ck_assert(entry.guarded && strcmp(entry.name, "file") == 0);
  int fd = folder_open_file(&entry, ".part", O_RDWR | O_CREAT | O_EXCL);
  ck_assert_int_ge(fd, 0);
  close(fd);
  ck_assert_int_eq(access(at("a/b/file.part"), F_OK), 0);
}
END_TEST

START_TEST(links_of_its_own_are_followed) {
  ck_assert_int_eq(symlink("there", at("link")), 0);
  ck_assert_int_eq(symlink("../link/..", at("there/back")), 0);
  ck_assert(folder_find(at("link/back/link/file"), false, &entry));
  ck_assert(folder_rename(&entry, "", &entry, "x") == false && errno == ENOENT);
  folder_leave(&entry);
  ck_assert_int_eq(symlink("circle", at("circle")), 0);
  ck_assert(!folder_find(at("circle/file"), true, &entry) && errno == ELOOP);
}
END_TEST

START_TEST(links_of_another_user_are_not_followed) {
  ck_assert_int_eq(symlink("there", at("link")), 0);
  if (give_away("link")) {
    ck_assert(!folder_find(at("link/file"), true, &entry) && errno == ELOOP);
    ck_assert_int_eq(folder_open(at("link")), -1);
    ck_assert_ptr_nonnull(strstr(folder_problem(errno), "symbolic link"));
  }
}
END_TEST

START_TEST(a_folder_that_others_can_replace_is_not_guarded) {
  ck_assert_int_eq(mkdir(at("there/in"), 0755), 0);
  ck_assert_int_eq(chmod(at("there"), 0777), 0);
  ck_assert(folder_find(at("there/file"), false, &entry) && entry.guarded);
  folder_leave(&entry);
  ck_assert(folder_find(at("there/in/file"), false, &entry) && !entry.guarded);
}
END_TEST

START_TEST(only_regular_files_are_opened_and_nothing_waits) {
  ck_assert(folder_find(at("there/file"), false, &entry));
  ck_assert_int_eq(mkfifo(at("there/file.fifo"), 0600), 0);
  ck_assert(folder_open_file(&entry, ".fifo", O_RDONLY) < 0 && errno == EMEDIUMTYPE);
  ck_assert_int_lt(folder_open_file(&entry, ".fifo", O_RDWR), 0);
  ck_assert_int_eq(symlink("file.real", at("there/file.link")), 0);
  ck_assert_int_lt(folder_open_file(&entry, ".link", O_RDWR | O_CREAT), 0);
  ck_assert_int_ne(access(at("there/file.real"), F_OK), 0);
}
END_TEST

Suite *folder_suite(void);
Suite *folder_suite(void) {
  Suite *suite = suite_create("folder");
  TCase *all = tcase_create("folders");
  tcase_add_checked_fixture(all, make_top, remove_top);
  tcase_add_test(all, folders_that_are_missing_are_made);
  tcase_add_test(all, links_of_its_own_are_followed);
  tcase_add_test(all, links_of_another_user_are_not_followed);
  tcase_add_test(all, a_folder_that_others_can_replace_is_not_guarded);
  tcase_add_test(all, only_regular_files_are_opened_and_nothing_waits);
  suite_add_tcase(suite, all);
  return suite;
}
