/* What is kept of how a model is opened best: found again under the same key, and nothing else is taken for it. */
#include "gpu/model/choice.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/runner.h"

#define KEY "model 1\ndevice a\n"

static char folder[] = "/tmp/framed-choice-XXXXXX";
static char file[512];
static struct model_choice found;

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/tmp/framed-choice-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  setenv("STATE_DIRECTORY", folder, 1);
}

/* With one choice kept, whose file is `file`. */
static void keep_one(void) {
  char path[256];
  make_folder();
  choice_keep(KEY, &(struct model_choice){.channels_last = true});
  snprintf(path, sizeof path, "%s/cache", folder);
  DIR *entries = opendir(path);
  ck_assert_ptr_nonnull(entries);
  unsigned count = 0;
  for (struct dirent *entry; (entry = readdir(entries));) {
    if (entry->d_name[0] != '.') {
      snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
      count++;
    }
  }
  closedir(entries);
  ck_assert_uint_eq(count, 1);
}

static void remove_all(void) {
  char path[256];
  unlink(file);
  snprintf(path, sizeof path, "%s/cache", folder);
  rmdir(path);
  rmdir(folder);
}

static void write_file(const char *text, const char *mode) {
  FILE *out = fopen(file, mode);
  ck_assert_ptr_nonnull(out);
  fputs(text, out);
  ck_assert_int_eq(fclose(out), 0);
}

START_TEST(a_choice_is_found_again_under_its_key_alone) {
  keep_one();
  ck_assert(choice_find(KEY, &found) && found.channels_last && !found.exhaustive);
  ck_assert(!choice_find("model 1\ndevice b\n", &found));
  choice_keep(KEY, &(struct model_choice){.exhaustive = true});
  ck_assert(choice_find(KEY, &found) && !found.channels_last && found.exhaustive && !found.adds_bias);
  choice_keep(KEY, &(struct model_choice){.channels_last = true, .adds_bias = true});
  ck_assert(choice_find(KEY, &found) && found.channels_last && !found.exhaustive && found.adds_bias);
  remove_all();
}
END_TEST

START_TEST(what_is_not_whole_is_nothing) {
  static const char *const texts[] = {"",
                                      "\n",
                                      KEY,
                                      KEY "layout nhwc\n",
                                      "model 2\ndevice a\nlayout nhwc\nsearch heuristic\nbias apart\n",
                                      KEY "layout nhwc\nsearch heuristic\n",
                                      KEY "layout nhwc\nsearch heuristic\nbias apart\nmore\n",
                                      KEY "layout ncwh\nsearch heuristic\nbias apart\n"};
  keep_one();
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    write_file(texts[i], "w");
    ck_assert_msg(!choice_find(KEY, &found), "%s", texts[i]);
  }
  for (int i = 0; i < 1000; i++) {
    write_file("0123456789", "a");
  }
  ck_assert(!choice_find(KEY, &found));
  remove_all();
}
END_TEST

START_TEST(what_is_no_file_of_ours_is_nothing) {
  char other[512];
  keep_one();
  snprintf(other, sizeof other, "%s/other", folder);
  ck_assert_int_eq(rename(file, other), 0);
  ck_assert_int_eq(symlink(other, file), 0);
  ck_assert(!choice_find(KEY, &found));
  unlink(file);
  ck_assert_int_eq(mkfifo(file, 0600), 0);
  ck_assert(!choice_find(KEY, &found)); /* nor is it waited for */
  unlink(other);
  remove_all();
}
END_TEST

START_TEST(without_a_folder_nothing_is_kept) {
  make_folder();
  snprintf(file, sizeof file, "%s/cache", folder);
  write_file("", "w"); /* in the folder's place */
  choice_keep(KEY, &(struct model_choice){.channels_last = true});
  ck_assert(!choice_find(KEY, &found));
  remove_all();
  setenv("STATE_DIRECTORY", "relative", 1);
  choice_keep(KEY, &(struct model_choice){.channels_last = true});
  ck_assert(!choice_find(KEY, &found));
  ck_assert_int_ne(access("relative", F_OK), 0);
}
END_TEST

Suite *choice_suite(void);
Suite *choice_suite(void) {
  Suite *suite = suite_create("choice");
  TCase *tests = tcase_create("keeping");
  tcase_add_test(tests, a_choice_is_found_again_under_its_key_alone);
  tcase_add_test(tests, what_is_not_whole_is_nothing);
  tcase_add_test(tests, what_is_no_file_of_ours_is_nothing);
  tcase_add_test(tests, without_a_folder_nothing_is_kept);
  suite_add_tcase(suite, tests);
  return suite;
}
