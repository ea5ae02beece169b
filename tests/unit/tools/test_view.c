/* /v1/status as framectl understands it, also from a daemon that is older or newer. */
#include "tools/framectl/status/view.h"

#include <string.h>

#include "tests/unit/runner.h"

static const char document_text[] =
    "{'version': '0.1.0', 'uptime_s': 12.5, 'backend': 'cpu', 'device': 'a cpu', 'lanes': 2, "
    "'handovers': {'of_tomorrow': 5, 'upgrading': true, 'refused': 'it is too old', 'fault': 2, 'upgrade': 1, 'restart': 4, "
    "'crash': 0, 'connections_lost': 9, "
    "'longest_ms': 30.5, 'last': {'cause': 'fault', 'text': 'cam0: it fell', 'gap_ms': 14.0}}, 'pipelines': {'cam0': {"
    "'state': 'running', 'slots': 6, 'graph': true, 'copies': 'kernel', 'timed_one_in': 8, 'waiting': 'reader', 'sessions': 1, "
    "'clients': 2, "
    "'readers': 3, 'missed': 4, 'refused': 5, 'not_read': true, 'last_refusal': {'age_s': 599, 'text': 'it was early', "
    "'remedy': 'come later'},"
    "'formats': {'input': 'gray 640x480', 'output': 'gray 320x240'},"
    "'source': {'socket': '/a', 'protocol': 'raw', 'frame_bytes': 307200},"
    "'sink': {'reply': true, 'protocol': 'y4m', 'frame_bytes': 76800},"
    "'frames': {'in': 10, 'emitted': 6, 'in_flight': 1, 'dropped': {'late': 1, 'unread': 2, 'of_tomorrow': 7}},"
    "'last_in_age_s': 0.25, 'last_out_age_s': null, 'throughput': {'in_fps': 60.5, 'out_fps': 59.9, 'in_bytes_per_s': 18.5, "
    "'out_bytes_per_s': 4, 'window_s': 10},"
    "'overlap': {'ratio': 0.48, 'speedup': 1.93, 'ideal_speedup': 1.96, 'bound_by': 'd2h', 'advice': 'less', 'gain': 1.2, "
    "'improve': 'bytes_out',"
    "'slots': 3, 'devices': 2, 'kernels_at_once': 1, 'turnaround_us': 12.5, 'host_us': 4, "
    "'service_us': [4, 5, 6], 'succession_us': [7, 8, 9], 'alone_us': 30},"
    "'latency_us': {'total': {'p50': 310, 'p99': 480.5, 'p999': 900, 'max': 1200, 'mean': 320, 'count': 599}}}, 'cam1': {}}}";

static json_t *document;

static void setup(void) {
  char text[sizeof document_text];
  memcpy(text, document_text, sizeof text);
  for (char *quote = text; (quote = strchr(quote, '\'')); quote++) {
    *quote = '"';
  }
  document = json_loads(text, 0, NULL);
  ck_assert_ptr_nonnull(document);
}

static void teardown(void) { json_decref(document); }

START_TEST(figures_come_from_their_keys) {
  struct daemon_view daemon;
  view_daemon(document, &daemon);
  ck_assert_str_eq(daemon.version, "0.1.0");
  ck_assert_str_eq(daemon.device, "a cpu");
  ck_assert_uint_eq(daemon.lanes, 2);
  struct pipeline_view view;
  struct problem problem = {0};
  ck_assert(view_find(document, "cam0", &view, &problem));
  ck_assert_str_eq(view.name, "cam0");
  ck_assert_str_eq(view.waiting, "reader");
  ck_assert_uint_eq(view.sessions * 1000 + view.clients * 100 + view.readers * 10 + view.missed, 1234);
  ck_assert_uint_eq(view.refused, 5);
  ck_assert_str_eq(view.refusal.text, "it was early");
  ck_assert_str_eq(view.refusal.remedy, "come later");
  ck_assert(view_refused_lately(&view));
  view.refusal.age_s = 600;
  ck_assert(!view_refused_lately(&view));
  ck_assert_uint_eq(view.slots, 6);
  ck_assert(view.graph && view.copies_by_kernel);
  ck_assert_uint_eq(view.timed_one_in, 8);
  ck_assert_str_eq(view.source.socket, "/a");
  ck_assert_str_eq(view.source.format, "gray 640x480");
  ck_assert_uint_eq(view.source.frame_bytes, 307200);
  ck_assert_ptr_null(view.sink.socket);
  ck_assert(view.sink.reply && !view.source.reply);
  ck_assert(view.not_read);
  ck_assert_uint_eq(view.in, 10);
  ck_assert_uint_eq(view.in_flight, 1);
  ck_assert_uint_eq(view.fates[FATE_EMITTED], 6);
  ck_assert_uint_eq(view.fates[FATE_UNREAD], 2);
  ck_assert_uint_eq(view_dropped(&view), 3);
  ck_assert_double_eq(view.in_fps, 60.5);
  ck_assert_double_eq(view.out_fps, 59.9);
  ck_assert_double_eq(view.last_in_s, 0.25);
  ck_assert_double_eq(view.last_out_s, -1);
  ck_assert_double_eq(view.latency[STEP_TOTAL].p99, 480.5);
  ck_assert_uint_eq(view.latency[STEP_TOTAL].count, 599);
  ck_assert_uint_eq(view.latency[STEP_H2D].count, 0);
  ck_assert_double_eq(view.overlap.ratio + view.overlap.speedup + view.overlap.ideal_speedup, 0.48 + 1.93 + 1.96);
  ck_assert_double_eq(view.overlap.turnaround_us, 12.5);
  ck_assert_double_eq(view.overlap.host_us, 4);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    ck_assert_double_eq(view.overlap.succession_us[engine], 7 + engine);
    ck_assert_double_eq(view.overlap.service_us[engine], 4 + engine);
  }
  ck_assert_double_eq(view.overlap.alone_us, 30);
  ck_assert_double_eq(view.overlap.gain, 1.2);
  ck_assert_uint_eq(view.overlap.slots * 10 + view.overlap.kernels_at_once, 31);
  ck_assert_uint_eq(view.overlap.devices, 2);
  ck_assert_str_eq(view.overlap.bound_by, "d2h");
  ck_assert_str_eq(view.overlap.advice, "less");
  ck_assert_str_eq(view.overlap.improve, "bytes_out");
}
END_TEST

START_TEST(hand_overs_are_counted_by_cause) {
  struct daemon_view daemon;
  char text[64], little[12];
  view_daemon(document, &daemon);
  const struct handovers_view *view = &daemon.handovers;
  ck_assert_uint_eq(view->total * 10 + view->upgrades, 71);
  ck_assert_str_eq(view_causes(document, text, sizeof text), "fault 2, upgrade 1, restart 4");
  ck_assert_str_eq(view_causes(document, little, sizeof little), "fault 2, up");
  ck_assert_str_eq(view->cause, "fault");
  ck_assert_str_eq(view->text, "cam0: it fell");
  ck_assert_str_eq(view->refused, "it is too old");
  ck_assert(view->upgrading);
  ck_assert_uint_eq(view->connections_lost, 9);
  ck_assert_double_eq(view->gap_ms * 100 + view->longest_ms, 1430.5);
  json_object_del(document, "handovers");
  view_daemon(document, &daemon);
  ck_assert(view->total == 0 && !view->upgrading && !view->cause[0] && !view->refused[0]);
  ck_assert_str_eq(view_causes(document, text, sizeof text), "");
}
END_TEST

START_TEST(what_is_missing_is_nothing) {
  struct pipeline_view view;
  struct problem problem = {0};
  ck_assert(view_find(document, "cam1", &view, &problem));
  ck_assert_str_eq(view.state, "");
  ck_assert_ptr_null(view.source.socket);
  ck_assert_str_eq(view.source.protocol, "");
  ck_assert_uint_eq(view.in, 0);
  json_t *wrong = json_pack("{s:i, s:[], s:s}", "state", 5, "frames", "throughput", "fast");
  view_pipeline("wrong", wrong, &view);
  ck_assert_str_eq(view.state, "");
  ck_assert_double_eq(view.out_fps, 0);
  json_decref(wrong);
}
END_TEST

START_TEST(an_unknown_name_lists_those_there_are) {
  struct pipeline_view view;
  struct problem problem = {0};
  ck_assert(!view_find(document, "cam2", &view, &problem));
  ck_assert_int_eq(problem.status, EXIT_STATUS_REFUSED);
  ck_assert_str_eq(problem.text, "there is no pipeline 'cam2'");
  ck_assert_str_eq(problem.remedy, "there are: cam0, cam1");
  problem_clear(&problem);
}
END_TEST

START_TEST(many_names_do_not_overflow) {
  struct pipeline_view view;
  struct problem problem = {0};
  json_t *pipelines = json_object_get(document, "pipelines");
  for (int i = 0; i < 200; i++) {
    char name[32];
    snprintf(name, sizeof name, "pipeline-%d", i);
    json_object_set_new(pipelines, name, json_object());
  }
  ck_assert(!view_find(document, "cam2", &view, &problem));
  ck_assert_uint_lt(strlen(problem.remedy), 512);
  problem_clear(&problem);
}
END_TEST

Suite *view_suite(void);
Suite *view_suite(void) {
  Suite *suite = suite_create("view");
  TCase *cases = tcase_create("view");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_add_test(cases, figures_come_from_their_keys);
  tcase_add_test(cases, hand_overs_are_counted_by_cause);
  tcase_add_test(cases, what_is_missing_is_nothing);
  tcase_add_test(cases, an_unknown_name_lists_those_there_are);
  tcase_add_test(cases, many_names_do_not_overflow);
  suite_add_tcase(suite, cases);
  return suite;
}
