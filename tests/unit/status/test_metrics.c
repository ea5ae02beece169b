/* /metrics: lines that Prometheus takes, with values that agree with the ledger and among themselves. */
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/history.h"
#include "daemon/status/status.h"
#include "tests/unit/runner.h"
#include "tests/unit/status/fake_server.h"

static void expect_line(const char *text, const char *line) {
  size_t length = strlen(line);
  for (const char *found = text; (found = strstr(found, line)); found += length) {
    if ((found == text || found[-1] == '\n') && found[length] == '\n') {
      return;
    }
  }
  ck_abort_msg("no line '%s'", line);
}

START_TEST(has_counters_of_each_pipeline) {
  struct server *server = fake_server_new();
  char *text = metrics_text(&server->ops);
  expect_line(text, "framed_frames_in_total{pipeline=\"cam0\"} 1000");
  expect_line(text, "framed_frames_in_total{pipeline=\"idle\"} 0");
  expect_line(text, "framed_frames_total{pipeline=\"cam0\",fate=\"emitted\"} 997");
  expect_line(text, "framed_frames_total{pipeline=\"cam0\",fate=\"late\"} 1");
  expect_line(text, "framed_frames_total{pipeline=\"idle\",fate=\"shutdown\"} 0");
  expect_line(text, "framed_frames_in_flight{pipeline=\"cam0\"} 2");
  expect_line(text, "framed_received_bytes_total{pipeline=\"cam0\"} 307200000");
  expect_line(text, "framed_emitted_bytes_total{pipeline=\"cam0\"} 306278400");
  expect_line(text, "framed_readers{pipeline=\"cam0\"} 3");
  expect_line(text, "framed_missed_results_total{pipeline=\"cam0\"} 5");
  expect_line(text, "framed_refused_clients_total{pipeline=\"cam0\"} 7");
  expect_line(text, "framed_graph{pipeline=\"cam0\"} 1");
  expect_line(text, "framed_kernel_copies{pipeline=\"cam0\"} 1");
  expect_line(text, "framed_timed_one_in{pipeline=\"cam0\"} 8");
  expect_line(text, "framed_pipeline_state{pipeline=\"cam0\",state=\"running\"} 1");
  expect_line(text, "framed_pipeline_state{pipeline=\"cam0\",state=\"paused\"} 0");
  expect_line(text, "framed_reloads_total{result=\"failed\"} 1");
  expect_line(text, "framed_uptime_seconds 12.500");
  expect_line(text, "process_resident_memory_bytes 12000000");
  expect_line(text, "process_open_fds 20");
  expect_line(text, "framed_pinned_bytes 614400");
  expect_line(text, "framed_device_bytes 1228800");
  expect_line(text, "framed_device_load_ratio{device=\"0\"} 0.42");
  expect_line(text, "framed_device_memory_total_bytes{device=\"0\"} 150000000000");
  expect_line(text, "framed_device_power_watts{device=\"0\"} 312.5");
  ck_assert_ptr_null(strstr(text, "framed_device_memory_clock_hertz{"));
  ck_assert_ptr_null(strstr(text, "framed_device_load_ratio{device=\"1\""));
  expect_line(text, "framed_device_state{device=\"0\",state=\"open\"} 1");
  expect_line(text, "framed_device_state{device=\"1\",state=\"failed\"} 1");
  expect_line(text, "framed_device_state{device=\"1\",state=\"open\"} 0");
  expect_line(text, "framed_device_producers{device=\"0\"} 1");
  expect_line(text, "framed_worker_replaced_total{device=\"0\"} 2");
  expect_line(text, "framed_worker_replaced_total{device=\"1\"} 0");
  ck_assert_ptr_nonnull(strstr(text, "framed_worker_age_seconds{device=\"0\"}"));
  ck_assert_ptr_null(strstr(text, "framed_worker_age_seconds{device=\"1\"}"));
  expect_line(text, "framed_device_busy_seconds_total{pipeline=\"cam0\"} 7.25");
  expect_line(text, "framed_overlap_ratio{pipeline=\"cam0\"} 0.48");
  expect_line(text, "framed_overlap_speedup{pipeline=\"idle\"} 0");
  expect_line(text, "framed_pipeline_bound{pipeline=\"cam0\",by=\"d2h\"} 1");
  expect_line(text, "framed_pipeline_bound{pipeline=\"cam0\",by=\"source\"} 0");
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(counts_hand_overs_by_cause) {
  struct server *server = fake_server_new();
  const struct history history = {
      .counts = {[HISTORY_UPGRADE] = 3}, .gap = 14000000, .longest = 20000000, .total = 1500000000, .closed = 7};
  server->view.history = &history;
  char *text = metrics_text(&server->ops);
  expect_line(text, "framed_handovers_total{cause=\"upgrade\"} 3");
  expect_line(text, "framed_handovers_total{cause=\"fault\"} 0");
  expect_line(text, "framed_handover_gap_seconds_total 1.500000");
  expect_line(text, "framed_handover_gap_seconds_longest 0.020000");
  expect_line(text, "framed_handover_lost_connections_total 7");
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(says_whether_all_is_well) {
  struct server *server = fake_server_new();
  server->ill = _i == 1;
  server->silent = _i == 2;
  char *text = metrics_text(&server->ops);
  expect_line(text, server->ill ? "framed_live 0" : "framed_live 1");
  expect_line(text, server->ill || server->silent ? "framed_healthy 0" : "framed_healthy 1");
  expect_line(text, server->silent ? "framed_pipeline_degraded{pipeline=\"cam0\",reason=\"silent\"} 1"
                                   : "framed_pipeline_degraded{pipeline=\"cam0\",reason=\"silent\"} 0");
  expect_line(text, "framed_pipeline_degraded{pipeline=\"cam0\",reason=\"sink\"} 0");
  expect_line(text, "framed_pipeline_degraded{pipeline=\"idle\",reason=\"silent\"} 0");
  expect_line(text, "framed_canary_seconds{device=\"0\"} 0.000123000");
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(escapes_label_values) {
  struct server *server = fake_server_new();
  server->view.device = "a\\b\"c\nd";
  char *text = metrics_text(&server->ops);
  expect_line(text, "framed_info{version=\"0.1.0\",backend=\"cpu\",device=\"a\\\\b\\\"c\\nd\"} 1");
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

/* 310 us lies under 2^19 ns, 1.2 ms under 2^21 ns: exact, since the edges are edges of the fine buckets too. */
START_TEST(histogram_is_cumulative) {
  struct server *server = fake_server_new();
  char *text = metrics_text(&server->ops);
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"cam0\",step=\"total\",le=\"4.096e-06\"} 0");
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"cam0\",step=\"total\",le=\"0.000262144\"} 0");
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"cam0\",step=\"total\",le=\"0.000524288\"} 900");
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"cam0\",step=\"total\",le=\"0.001048576\"} 900");
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"cam0\",step=\"total\",le=\"0.002097152\"} 997");
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"cam0\",step=\"total\",le=\"2.147483648\"} 997");
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"cam0\",step=\"total\",le=\"+Inf\"} 997");
  expect_line(text, "framed_latency_seconds_count{pipeline=\"cam0\",step=\"total\"} 997");
  expect_line(text, "framed_latency_seconds_sum{pipeline=\"cam0\",step=\"total\"} 0.395400000");
  expect_line(text, "framed_latency_seconds_count{pipeline=\"idle\",step=\"h2d\"} 0");
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

/* What is slower than the last edge is in +Inf alone. */
START_TEST(histogram_keeps_what_is_off_the_scale) {
  struct server *server = fake_server_new();
  fake_record(&server->pipelines[1].snapshot.cumulative[STEP_EMIT], INT64_C(100000000000), 4);
  char *text = metrics_text(&server->ops);
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"idle\",step=\"emit\",le=\"2.147483648\"} 0");
  expect_line(text, "framed_latency_seconds_bucket{pipeline=\"idle\",step=\"emit\",le=\"+Inf\"} 4");
  expect_line(text, "framed_latency_seconds_count{pipeline=\"idle\",step=\"emit\"} 4");
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(works_without_any_pipeline) {
  struct server *server = fake_server_new();
  server->view.pipeline_count = 0;
  char *text = metrics_text(&server->ops);
  expect_line(text, "# TYPE framed_frames_total counter");
  expect_line(text, "framed_lanes 2");
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

/* promtool is Prometheus' own judge of form and names; where it is installed it must have nothing to say. */
START_TEST(promtool_has_nothing_to_say) {
  if (system("command -v promtool >/dev/null") != 0) {
    return;
  }
  struct server *server = fake_server_new();
  char *text = metrics_text(&server->ops);
  FILE *promtool = popen("said=$(promtool check metrics 2>&1) && test -z \"$said\" || { echo \"$said\"; exit 1; }", "w");
  ck_assert_ptr_nonnull(promtool);
  fputs(text, promtool);
  ck_assert_int_eq(pclose(promtool), 0);
  free(text);
  ck_assert(fake_server_free(server));
}
END_TEST

Suite *metrics_suite(void);
Suite *metrics_suite(void) {
  Suite *suite = suite_create("metrics");
  TCase *cases = tcase_create("metrics");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, has_counters_of_each_pipeline);
  tcase_add_loop_test(cases, says_whether_all_is_well, 0, 3);
  tcase_add_test(cases, counts_hand_overs_by_cause);
  tcase_add_test(cases, escapes_label_values);
  tcase_add_test(cases, histogram_is_cumulative);
  tcase_add_test(cases, histogram_keeps_what_is_off_the_scale);
  tcase_add_test(cases, works_without_any_pipeline);
  tcase_add_test(cases, promtool_has_nothing_to_say);
  suite_add_tcase(suite, cases);
  return suite;
}
