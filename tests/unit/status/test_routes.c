/* The routes as a client sees them: what is answered to whom, by which status, and what a refusal says. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"
#include "tests/unit/status/client.h"

static void expect(const char *answer, const char *status, const char *part) {
  char line[64];
  snprintf(line, sizeof line, "HTTP/1.1 %s", status);
  ck_assert_msg(strncmp(answer, line, strlen(line)) == 0, "not %s: %s", status, answer);
  ck_assert_msg(strstr(answer, part) != NULL, "no '%s' in %s", part, answer);
}

static void ask_and_expect(struct site *site, const char *method, const char *path, const char *status, const char *part) {
  char *answer = site_ask(site, method, path);
  expect(answer, status, part);
  free(answer);
}

START_TEST(documents) {
  struct site site;
  site_open(&site, false);
  ask_and_expect(&site, "GET", "/v1/status", "200", "Content-Type: application/json");
  ask_and_expect(&site, "GET", "/v1/status", "200", "\"cam0\"");
  ask_and_expect(&site, "GET", "/v1/status?pretty", "200", "\"cam0\"");
  ask_and_expect(&site, "GET", "/metrics", "200", "Content-Type: text/plain; version=0.0.4");
  ask_and_expect(&site, "GET", "/metrics", "200", "framed_frames_in_total{pipeline=\"cam0\"} 1000");
  ask_and_expect(&site, "GET", "/v1/config", "200", "\r\n\r\npipelines:\n  cam0: {}\n");
  ask_and_expect(&site, "GET", "/", "200", "Content-Type: text/html");
  site_close(&site);
}
END_TEST

START_TEST(health_is_told_by_the_status_code) {
  struct site site;
  site_open(&site, _i == 1); /* read-only answers too */
  ask_and_expect(&site, "GET", "/v1/health", "200", "\"ok\": true");
  ask_and_expect(&site, "GET", "/v1/health", "200", "\"canary_us\": 123.0");
  ask_and_expect(&site, "GET", "/v1/live", "200", "\"canary_us\": 123.0");
  ask_and_expect(&site, "HEAD", "/v1/health", "200", "Content-Type: application/json");
  site.server->silent = true; /* which is no matter of life and death */
  ask_and_expect(&site, "GET", "/v1/health", "503", "\"why\": \"pipeline cam0: no frame\"");
  ask_and_expect(&site, "GET", "/v1/health", "503", "\"reason\": \"silent\"");
  ask_and_expect(&site, "GET", "/v1/live", "200", "\"ok\": true");
  site.server->ill = true;
  ask_and_expect(&site, "GET", "/v1/live", "503", "\"why\": \"device 0: it stands\"");
  ask_and_expect(&site, "GET", "/v1/health", "503", "\"why\": \"device 0: it stands\"");
  ask_and_expect(&site, "HEAD", "/v1/health", "503", "Content-Type: application/json");
  ask_and_expect(&site, "GET", "/v1/status", "200", "\"why\": \"device 0: it stands\"");
  ask_and_expect(&site, "POST", "/v1/health", "405", "Allow: GET, HEAD\r\n");
  site_close(&site);
}
END_TEST

START_TEST(head_has_no_body) {
  struct site site;
  site_open(&site, false);
  char *get = site_ask(&site, "GET", "/v1/config"), *head = site_ask(&site, "HEAD", "/v1/config");
  expect(head, "200", "Content-Length: 22");
  ck_assert_str_eq(body_of(head), "");
  ck_assert_uint_eq(strlen(body_of(get)), 22);
  free(get);
  free(head);
  site_close(&site);
}
END_TEST

START_TEST(commands_reach_the_server) {
  struct site site;
  site_open(&site, false);
  ask_and_expect(&site, "POST", "/v1/reload", "200", "\"ok\": true");
  ck_assert_uint_eq(site.server->reloads, 1);
  ask_and_expect(&site, "POST", "/v1/devices/1/drain", "200", "\"did\": \"drain\"");
  ask_and_expect(&site, "POST", "/v1/devices/0/resume", "200", "\"did\": \"resume\"");
  ask_and_expect(&site, "POST", "/v1/devices/first/drain", "404", "by its number");
  ask_and_expect(&site, "POST", "/v1/pipelines/cam0/pause", "200", "\"ok\": true");
  ck_assert_int_eq(site.server->command, PIPELINE_COMMAND_PAUSE);
  ck_assert_str_eq(site.server->command_pipeline, "cam0");
  ask_and_expect(&site, "POST", "/v1/pipelines/idle/resume", "200", "\"ok\": true");
  ck_assert_int_eq(site.server->command, PIPELINE_COMMAND_RESUME);
  ck_assert_str_eq(site.server->command_pipeline, "idle");
  ask_and_expect(&site, "POST", "/v1/pipelines/cam0/drain", "200", "\"ok\": true");
  ck_assert_int_eq(site.server->command, PIPELINE_COMMAND_DRAIN);
  ck_assert_uint_eq(site.server->commands, 3);
  site_close(&site);
}
END_TEST

START_TEST(traces_have_a_length_within_limits) {
  static const char *const wrong[] = {"0", "0.09", "60.1", "-1", "1e1", "2x", "inf", "nan", "", "1.2.3", "+2", "%20"};
  struct site site;
  char path[64];
  site_open(&site, false);
  ask_and_expect(&site, "GET", "/v1/trace", "200", "Content-Type: application/json");
  ck_assert_int_eq(site.server->trace_ns, 2000000000);
  ask_and_expect(&site, "GET", "/v1/trace?seconds=0.1", "200", "\"frames\":0");
  ck_assert_int_eq(site.server->trace_ns, 100000000);
  ask_and_expect(&site, "GET", "/v1/trace?other&seconds=60", "200", "chunked");
  ck_assert_int_eq(site.server->trace_ns, 60000000000);
  ck_assert_uint_eq(site.server->traced, 3);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    snprintf(path, sizeof path, "/v1/trace?seconds=%s", wrong[i]);
    ask_and_expect(&site, "GET", path, "400", "from 0.1 to 60");
  }
  ask_and_expect(&site, "HEAD", "/v1/trace", "200", "Content-Type: application/json");
  ask_and_expect(&site, "POST", "/v1/trace", "405", "Allow: GET, HEAD\r\n");
  ck_assert_uint_eq(site.server->traced, 3);
  site_close(&site);
}
END_TEST

START_TEST(pictures_have_a_width_and_a_client) {
  static const char *const wrong[] = {"width=x", "width=", "width=-1", "width=65537", "client=1.5", "client=1025", "as=x"};
  struct site site;
  char path[64];
  site_open(&site, true);
  ask_and_expect(&site, "GET", "/v1/pipelines/cam0/in.jpg", "200", "Content-Type: image/jpeg");
  ask_and_expect(&site, "GET", "/v1/pipelines/cam0/out.jpg?width=320&client=0", "200", "Content-Length: 3");
  ask_and_expect(&site, "HEAD", "/v1/pipelines/cam0/out.jpg", "200", "Content-Type: image/jpeg");
  ask_and_expect(&site, "GET", "/v1/pipelines/cam9/out.jpg", "404", "there is no such pipeline");
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    snprintf(path, sizeof path, "/v1/pipelines/cam0/in.jpg?%s", wrong[i]);
    ask_and_expect(&site, "GET", path, "400", "width is a whole number");
  }
  ask_and_expect(&site, "HEAD", "/v1/pipelines/cam0/live?side=in", "200", "Content-Type: multipart/x-mixed-replace; boundary=");
  ask_and_expect(&site, "GET", "/v1/pipelines/cam0/live?side=in", "200",
                 "--frame\r\nContent-Type: image/jpeg\r\nContent-Length: 2\r\n\r\nin\r\n--frame\r\n");
  ck_assert_uint_eq(site.server->live_viewers, 0);
  ask_and_expect(&site, "GET", "/v1/pipelines/cam0/live?side=up", "400", "side is in or out");
  ask_and_expect(&site, "GET", "/v1/pipelines/cam9/live", "404", "there is no such pipeline");
  site_close(&site);
}
END_TEST

START_TEST(unknown_paths_list_the_routes) {
  static const char *const paths[] = {"/v1",
                                      "/v1/statusx",
                                      "/v1/pipelines/cam0",
                                      "/v1/pipelines//pause",
                                      "/v1/pipelines/a/b/pause",
                                      "/v1/pipelines/cam0/pause/",
                                      "/v1/pipelines/cam0/stop",
                                      "/%2e%2e/etc/passwd",
                                      "/.",
                                      "//"};
  struct site site;
  site_open(&site, false);
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    ask_and_expect(&site, "POST", paths[i], "404", "\"POST /v1/pipelines/NAME/drain\"");
    ask_and_expect(&site, "GET", paths[i], "404", "\"remedy\"");
  }
  ck_assert_uint_eq(site.server->commands, 0);
  site_close(&site);
}
END_TEST

START_TEST(names_are_limited) {
  struct site site;
  char path[256];
  site_open(&site, false);
  snprintf(path, sizeof path, "/v1/pipelines/%064d/pause", 7);
  ask_and_expect(&site, "POST", path, "200", "true");
  snprintf(path, sizeof path, "/v1/pipelines/%065d/pause", 7);
  ask_and_expect(&site, "POST", path, "404", "error");
  site_close(&site);
}
END_TEST

START_TEST(wrong_methods_say_which_is_right) {
  struct site site;
  site_open(&site, false);
  ask_and_expect(&site, "POST", "/v1/status", "405", "Allow: GET, HEAD\r\n");
  ask_and_expect(&site, "GET", "/v1/reload", "405", "Allow: POST\r\n");
  ask_and_expect(&site, "DELETE", "/v1/pipelines/cam0/drain", "405", "\"remedy\": \"send POST\"");
  ck_assert_uint_eq(site.server->commands + site.server->reloads, 0);
  site_close(&site);
}
END_TEST

START_TEST(read_only_takes_no_command) {
  struct site site;
  site_open(&site, true);
  ask_and_expect(&site, "GET", "/v1/status", "200", "\"cam0\"");
  ask_and_expect(&site, "POST", "/v1/reload", "403", "/run/framed/status.sock");
  ask_and_expect(&site, "POST", "/v1/pipelines/cam0/drain", "403", "read-only");
  ck_assert_uint_eq(site.server->commands + site.server->reloads, 0);
  site_close(&site);
}
END_TEST

Suite *routes_suite(void);
Suite *routes_suite(void) {
  Suite *suite = suite_create("routes");
  TCase *cases = tcase_create("routes");
  tcase_add_test(cases, documents);
  tcase_add_loop_test(cases, health_is_told_by_the_status_code, 0, 2);
  tcase_add_test(cases, head_has_no_body);
  tcase_add_test(cases, commands_reach_the_server);
  tcase_add_test(cases, traces_have_a_length_within_limits);
  tcase_add_test(cases, pictures_have_a_width_and_a_client);
  tcase_add_test(cases, unknown_paths_list_the_routes);
  tcase_add_test(cases, names_are_limited);
  tcase_add_test(cases, wrong_methods_say_which_is_right);
  tcase_add_test(cases, read_only_takes_no_command);
  suite_add_tcase(suite, cases);
  return suite;
}
