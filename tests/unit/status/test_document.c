/* /v1/status: every key is there, figures stand where they belong, and the ledger balances. */
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/history.h"
#include "daemon/status/status.h"
#include "tests/unit/runner.h"
#include "tests/unit/status/fake_server.h"

static json_t *at(json_t *document, const char *path) {
  char keys[128];
  snprintf(keys, sizeof keys, "%s", path);
  for (char *rest = keys, *key; (key = strsep(&rest, "/"));) {
    document = json_object_get(document, key);
    ck_assert_msg(document != NULL, "no %s of %s", key, path);
  }
  return document;
}

static const char *text_at(json_t *document, const char *path) { return json_string_value(at(document, path)); }
static double number_at(json_t *document, const char *path) { return json_number_value(at(document, path)); }

static void expect_balance(json_t *document, const char *name) {
  json_t *frames = at(at(at(document, "pipelines"), name), "frames"), *value;
  json_int_t sum = json_integer_value(at(frames, "emitted")) + json_integer_value(at(frames, "in_flight"));
  const char *key;
  unsigned fates = 0;
  json_object_foreach(at(frames, "dropped"), key, value) {
    sum += json_integer_value(value);
    fates++;
  }
  ck_assert_uint_eq(fates, FATE_COUNT - 1);
  ck_assert_int_eq(json_integer_value(at(frames, "in")), sum);
}

START_TEST(says_what_the_daemon_is) {
  struct server *server = fake_server_new();
  json_t *document = status_document(&server->ops, NULL);
  ck_assert_str_eq(text_at(document, "version"), "0.1.0");
  ck_assert_str_eq(text_at(document, "backend"), "cpu");
  ck_assert_str_eq(text_at(document, "device"), "a \"processor\"");
  ck_assert_double_eq(number_at(document, "uptime_s"), 12.5);
  ck_assert_double_eq(number_at(document, "lanes"), 2);
  ck_assert_uint_eq(json_array_size(at(document, "lacks")), 1);
  ck_assert_str_eq(json_string_value(json_array_get(at(document, "lacks"), 0)), "models do not run on the GPU");
  ck_assert_double_eq(number_at(document, "devices/0/load"), 0.42);
  ck_assert_double_eq(number_at(document, "devices/0/temperature_celsius"), 61);
  ck_assert_ptr_null(json_object_get(at(document, "devices/0"), "memory_clock_hertz")); /* the driver does not say */
  ck_assert_str_eq(text_at(document, "devices/0/state"), "open");
  ck_assert_double_eq(number_at(document, "devices/0/producers"), 1);
  ck_assert_ptr_null(json_object_get(at(document, "devices/0"), "text"));
  ck_assert_double_eq(number_at(document, "devices/0/worker/pid"), 4711);
  ck_assert_double_eq(number_at(document, "devices/0/worker/generation"), 3);
  ck_assert_double_gt(number_at(document, "devices/0/worker/age_s"), 0);
  ck_assert_double_eq(number_at(document, "devices/0/worker/replaced"), 2);
  ck_assert_str_eq(text_at(document, "devices/0/worker/last/reason"), "it was ended by signal 9");
  ck_assert_double_gt(number_at(document, "devices/0/worker/last/age_s"), 0);
  ck_assert_double_eq(number_at(document, "devices/0/worker/last/gap_ms"), 12.5);
  ck_assert_double_eq(number_at(document, "devices/0/worker/standby/pid"), 4712);
  ck_assert_str_eq(text_at(document, "devices/0/worker/standby/state"), "warm");
  ck_assert(json_is_null(at(document, "devices/1/worker/standby")));
  ck_assert(json_is_null(at(document, "devices/1/worker/pid")) && json_is_null(at(document, "devices/1/worker/age_s")));
  ck_assert_double_eq(number_at(document, "devices/1/worker/generation"), 1);
  ck_assert(json_is_null(at(document, "devices/1/worker/last")));
  ck_assert_str_eq(text_at(document, "devices/1/state"), "failed");
  ck_assert_str_eq(text_at(document, "devices/1/text"), "it is broken");
  ck_assert_uint_eq(json_array_size(at(document, "pipelines/cam0/devices")), 2);
  ck_assert_double_eq(number_at(json_array_get(at(document, "pipelines/cam0/connected"), 0), "device"), 1);
  ck_assert_str_eq(text_at(document, "pipelines/cam0/condition"), "running");
  ck_assert_double_eq(number_at(document, "reloads/done"), 3);
  ck_assert_double_eq(number_at(document, "reloads/failed"), 1);
  ck_assert(json_is_false(at(document, "stopping")));
  ck_assert_double_eq(number_at(document, "usage/resident_bytes"), 12000000);
  ck_assert_double_eq(number_at(document, "usage/pinned_bytes"), 614400);
  ck_assert_double_eq(number_at(document, "usage/device_bytes"), 1228800);
  ck_assert_double_eq(number_at(document, "usage/descriptors"), 20);
  json_decref(document);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(says_what_a_pipeline_does) {
  struct server *server = fake_server_new();
  json_t *document = status_document(&server->ops, NULL), *cam0 = at(document, "pipelines/cam0");
  ck_assert_str_eq(text_at(cam0, "state"), "running");
  ck_assert_str_eq(text_at(cam0, "waiting"), "nothing");
  ck_assert_double_eq(number_at(cam0, "sessions"), 1);
  ck_assert_double_eq(number_at(cam0, "readers"), 3);
  ck_assert_double_eq(number_at(cam0, "missed"), 5);
  ck_assert_double_eq(number_at(cam0, "refused"), 7);
  ck_assert_double_gt(number_at(cam0, "last_refusal/age_s"), 0);
  ck_assert_str_eq(text_at(cam0, "last_refusal/text"), "somebody was refused");
  ck_assert_str_eq(text_at(cam0, "last_refusal/remedy"), "do not come again");
  ck_assert_double_eq(number_at(cam0, "frames/dropped/late"), 1);
  ck_assert_double_eq(number_at(cam0, "throughput/in_fps"), 60.5);
  ck_assert_double_eq(number_at(cam0, "throughput/out_fps"), 59.9);
  ck_assert_double_eq(number_at(cam0, "throughput/fps"), 59.9);
  json_t *client = json_array_get(at(cam0, "connected"), 0);
  ck_assert_str_eq(text_at(client, "role"), "producer");
  ck_assert_str_eq(text_at(client, "process"), "ffmpeg");
  ck_assert_str_eq(text_at(client, "waiting"), "reader");
  ck_assert_double_eq(number_at(client, "pid"), 42);
  ck_assert_double_eq(number_at(client, "user"), 7);
  ck_assert_double_eq(number_at(client, "frames"), 1000);
  ck_assert_double_gt(number_at(client, "since_s"), 0);
  ck_assert_str_eq(text_at(cam0, "errors/sink/text"), "no room");
  ck_assert_str_eq(text_at(cam0, "errors/sink/remedy"), "make some");
  ck_assert_double_eq(number_at(cam0, "errors/sink/count"), 3);
  ck_assert_double_ge(number_at(cam0, "errors/sink/since_s"), number_at(cam0, "errors/sink/age_s"));
  ck_assert(json_is_null(at(cam0, "errors/source")) && json_is_null(at(cam0, "silent")));
  ck_assert_double_gt(number_at(cam0, "last_in_age_s"), 0);
  ck_assert(json_is_null(at(cam0, "last_out_age_s")));
  ck_assert_double_eq(number_at(cam0, "latency_us/total/p99"), 480);
  ck_assert_double_eq(number_at(cam0, "latency_us/total/count"), 599);
  ck_assert_double_eq(number_at(cam0, "latency_us/gpu_wait/max"), 0);
  ck_assert_double_eq(number_at(cam0, "slots"), 4);
  ck_assert(json_is_true(at(cam0, "graph")));
  ck_assert_str_eq(json_string_value(at(cam0, "copies")), "kernel");
  ck_assert_double_eq(number_at(cam0, "timed_one_in"), 8);
  ck_assert_str_eq(text_at(cam0, "formats/input"), "gray 640x480");
  ck_assert_str_eq(text_at(cam0, "source/socket"), "/run/framed/cam0.sock");
  ck_assert_str_eq(text_at(cam0, "source/protocol"), "raw");
  ck_assert_double_eq(number_at(cam0, "source/frame_bytes"), 307200);
  ck_assert_str_eq(text_at(cam0, "sink/socket"), "/run/framed/cam0.out.sock");
  ck_assert(json_is_true(at(document, "pipelines/idle/sink/reply")));
  expect_balance(document, "cam0");
  json_decref(document);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(says_what_bounds_a_pipeline) {
  struct server *server = fake_server_new();
  json_t *document = status_document(&server->ops, NULL), *cam0 = at(document, "pipelines/cam0");
  ck_assert_double_eq(number_at(cam0, "overlap/ratio"), 0.48);
  ck_assert_double_eq(number_at(cam0, "overlap/speedup"), 1.93);
  ck_assert_double_eq(number_at(cam0, "overlap/ideal_speedup"), 1.96);
  ck_assert_str_eq(text_at(cam0, "overlap/bound_by"), "d2h");
  ck_assert_str_eq(text_at(cam0, "overlap/advice"), "another slot");
  ck_assert_double_eq(number_at(cam0, "overlap/gain"), 1.25);
  ck_assert_str_eq(text_at(cam0, "overlap/improve"), "slots");
  ck_assert_double_eq(number_at(cam0, "overlap/slots"), 3);
  ck_assert_double_eq(number_at(cam0, "overlap/devices"), 2);
  ck_assert_double_eq(number_at(cam0, "overlap/turnaround_us"), 12);
  ck_assert_double_eq(number_at(cam0, "overlap/host_us"), 3);
  const double service[] = {70, 20, 80}, history[] = {71, 19, 0};
  for (size_t i = 0; i < sizeof history / sizeof history[0]; i++) {
    ck_assert_double_eq(json_number_value(json_array_get(at(cam0, "overlap/service_us"), i)), service[i]);
    ck_assert_double_eq(json_number_value(json_array_get(at(cam0, "overlap/succession_us"), i)), history[i]);
  }
  ck_assert_double_eq(number_at(cam0, "overlap/alone_us"), 190);
  json_decref(document);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(is_whole_before_the_first_frame) {
  struct server *server = fake_server_new();
  json_t *document = status_document(&server->ops, NULL), *idle = at(document, "pipelines/idle");
  ck_assert_str_eq(text_at(idle, "state"), "starting");
  ck_assert_str_eq(text_at(idle, "waiting"), "producer");
  ck_assert_double_eq(number_at(idle, "frames/in"), 0);
  ck_assert_double_eq(number_at(idle, "throughput/fps"), 0);
  ck_assert(json_is_null(at(idle, "last_refusal")));
  for (int step = 0; step < STEP_COUNT; step++) {
    json_t *summary = at(at(idle, "latency_us"), step_names[step]);
    ck_assert_double_eq(number_at(summary, "p50"), 0);
    ck_assert_double_eq(number_at(summary, "p999"), 0);
  }
  expect_balance(document, "idle");
  json_decref(document);
  ck_assert(fake_server_free(server));
}
END_TEST

/* A pipeline that a reload removed still runs down, without an entry in the configuration in force. */
START_TEST(shows_a_pipeline_without_configuration) {
  struct server *server = fake_server_new();
  server->config.pipeline_count = 1;
  json_t *document = status_document(&server->ops, NULL), *idle = at(document, "pipelines/idle");
  ck_assert_ptr_null(json_object_get(idle, "source"));
  ck_assert_double_eq(number_at(idle, "frames/in"), 0);
  json_decref(document);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(never_says_what_json_cannot) {
  struct server *server = fake_server_new();
  server->pipelines[0].snapshot.out_fps = 1.0 / 0.0;
  server->pipelines[0].snapshot.latency[STEP_EMIT].p50 = 0.0 / 0.0;
  json_t *document = status_document(&server->ops, NULL);
  ck_assert_double_eq(number_at(document, "pipelines/cam0/throughput/fps"), 0);
  ck_assert_double_eq(number_at(document, "pipelines/cam0/latency_us/emit/p50"), 0);
  json_decref(document);
  ck_assert(fake_server_free(server));
}
END_TEST

START_TEST(counts_hand_overs_and_says_why_there_was_none) {
  struct server *server = fake_server_new();
  json_t *document = status_document(&server->ops, NULL);
  ck_assert(json_is_null(at(document, "handovers/last")) && json_is_null(at(document, "handovers/refused")));
  ck_assert(json_is_false(at(document, "handovers/upgrading")));
  json_decref(document);
  const struct history history = {.counts = {[HISTORY_FAULT] = 2, [HISTORY_CRASH] = 1},
                                  .cause = HISTORY_FAULT,
                                  .text = "cam0: it fell",
                                  .gap = 14000000,
                                  .longest = 20000000};
  server->view.history = &history;
  server->view.refusal = "it is too old";
  server->view.upgrading = true;
  document = status_document(&server->ops, NULL);
  ck_assert_double_eq(number_at(document, "handovers/fault") * 10 + number_at(document, "handovers/crash"), 21);
  ck_assert_double_eq(number_at(document, "handovers/longest_ms"), 20);
  ck_assert_double_eq(number_at(document, "handovers/last/gap_ms"), 14);
  ck_assert_str_eq(text_at(document, "handovers/last/cause"), "fault");
  ck_assert_str_eq(text_at(document, "handovers/last/text"), "cam0: it fell");
  ck_assert_str_eq(text_at(document, "handovers/refused"), "it is too old");
  ck_assert(json_is_true(at(document, "handovers/upgrading")));
  json_decref(document);
  ck_assert(fake_server_free(server));
}
END_TEST

Suite *document_suite(void);
Suite *document_suite(void) {
  Suite *suite = suite_create("document");
  TCase *cases = tcase_create("document");
  tcase_add_test(cases, says_what_the_daemon_is);
  tcase_add_test(cases, says_what_a_pipeline_does);
  tcase_add_test(cases, says_what_bounds_a_pipeline);
  tcase_add_test(cases, is_whole_before_the_first_frame);
  tcase_add_test(cases, shows_a_pipeline_without_configuration);
  tcase_add_test(cases, counts_hand_overs_and_says_why_there_was_none);
  tcase_add_test(cases, never_says_what_json_cannot);
  suite_add_tcase(suite, cases);
  return suite;
}
