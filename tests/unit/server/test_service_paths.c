/* Which paths a service can use, by what its unit says. */
#include "daemon/server/service_paths.h"

#include <string.h>

#include "tests/unit/runner.h"

static const struct unit_rules hardened = {.strict = true,
                                           .private_tmp = true,
                                           .hides_homes = true,
                                           .count = 2,
                                           .writable = {(char *)"/run/framed", (char *)"/data/"}};

START_TEST(a_path_is_judged_by_where_it_lies) {
  static const struct {
    const char *path;
    bool writes;
    const char *why; /* a part of it; NULL: none */
  } cases[] = {{"/run/framed/cam0.sock", true, NULL},
               {"/run/framed2/cam0.sock", true, "ProtectSystem="},
               {"/data/out.raw", true, NULL},
               {"/database/out.raw", true, "ReadWritePaths="},
               {"/srv/in.raw", false, NULL},
               {"/srv/out.raw", true, "ReadWritePaths="},
               {"/dev/null", true, NULL},
               {"/tmp/cam0.sock", true, "PrivateTmp="},
               {"/var/tmp/in.raw", false, "PrivateTmp="},
               {"/home/me/in.raw", false, "ProtectHome="},
               {"cam0.sock", true, "starts in /"}};
  const char *why = service_paths_judge(&hardened, cases[_i].path, cases[_i].writes);
  ck_assert_msg((why == NULL) == (cases[_i].why == NULL), "%s: %s", cases[_i].path, why ? why : "fine");
  ck_assert(!why || strstr(why, cases[_i].why));
}
END_TEST

START_TEST(a_unit_that_forbids_nothing_lets_all_through) {
  const struct unit_rules open = {0};
  ck_assert_ptr_null(service_paths_judge(&open, "/srv/out.raw", true));
  ck_assert_ptr_null(service_paths_judge(&open, "/tmp/cam0.sock", true));
  ck_assert_ptr_null(service_paths_judge(&open, "/home/me/out.raw", true));
}
END_TEST

Suite *service_paths_suite(void);
Suite *service_paths_suite(void) {
  Suite *suite = suite_create("service_paths");
  TCase *all = tcase_create("all");
  tcase_add_loop_test(all, a_path_is_judged_by_where_it_lies, 0, 11);
  tcase_add_test(all, a_unit_that_forbids_nothing_lets_all_through);
  suite_add_tcase(suite, all);
  return suite;
}
