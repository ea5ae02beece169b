/* What valid files mean: defaults, values in all their forms, and what stands where. */
#include <string.h>
#include <unistd.h>

#include "tests/unit/config/fixture.h"

START_TEST(defaults_are_those_of_the_manual) {
  struct config *config = fixture_config(PIPELINE(""));
  ck_assert_int_eq(config->log_level, CONFIG_LOG_INFO);
  ck_assert_uint_eq(config->lanes, 0);
  ck_assert_int_eq(config->drain_timeout_ns, 5000000000);
  ck_assert_str_eq(config->status.socket, "/run/framed/status.sock");
  ck_assert_ptr_null(config->status.http);
  ck_assert_int_eq(config->gpu.backend, CONFIG_BACKEND_AUTO);
  ck_assert_uint_eq(config->gpu.device, 0);
  ck_assert_int_eq(config->gpu.timeout_ns, 2000000000);
  ck_assert_uint_eq(config->pipeline_count, 1);
  config_free(config);
}
END_TEST

START_TEST(pipeline_defaults_are_those_of_the_manual) {
  struct config *config = fixture_config(PIPELINE(""));
  const struct config_pipeline *pipeline = &config->pipelines[0];
  ck_assert_str_eq(pipeline->name, "cam0");
  ck_assert_uint_eq(pipeline->device, 0);
  ck_assert_uint_eq(pipeline->slots, 2);
  ck_assert_int_eq(pipeline->completion, CONFIG_COMPLETION_CALLBACK);
  ck_assert_int_eq(pipeline->graph, CONFIG_GRAPH_AUTO);
  ck_assert_int_eq(pipeline->spin_for_ns, 200000);
  ck_assert_int_eq(pipeline->overload, CONFIG_OVERLOAD_BLOCK);
  ck_assert_int_eq(pipeline->priority, CONFIG_PRIORITY_NORMAL);
  ck_assert_int_eq(pipeline->deadline_ns, 0);
  ck_assert_uint_eq(pipeline->stage_count, 0);
  config_free(config);
}
END_TEST

START_TEST(socket_defaults_are_those_of_the_manual) {
  struct config *config = fixture_config(PIPELINE(""));
  const struct config_source *source = &config->pipelines[0].source;
  const struct config_sink *sink = &config->pipelines[0].sink;
  ck_assert_int_eq(source->endpoint, CONFIG_SOCKET);
  ck_assert_int_eq(source->protocol, CONFIG_PROTOCOL_RAW);
  ck_assert_uint_eq(source->clients, 1);
  ck_assert_int_eq(source->timeout_ns, 10000000000);
  ck_assert_int_eq(source->expect_ns, 0);
  ck_assert_uint_eq(source->access.mode, 0660);
  ck_assert_uint_eq(source->access.owner, (uid_t)-1);
  ck_assert_uint_eq(source->access.group, (gid_t)-1);
  ck_assert_uint_eq(source->access.allow.user_count + source->access.allow.group_count, 0);
  ck_assert_int_eq(sink->endpoint, CONFIG_SOCKET);
  ck_assert_int_eq(sink->overload, CONFIG_SINK_DROP);
  ck_assert_uint_eq(sink->access.mode, 0660);
  config_free(config);
}
END_TEST

START_TEST(the_whole_daemon_is_set) {
  struct config *config = fixture_config("log: {level: debug}\nlanes: 7\ndrain_timeout: 1.5s\n"
                                         "status: {socket: s.sock, http: '[::1]:9464', token: /t}\n"
                                         "gpu: {backend: cpu, device: 3, timeout: 250 ms}\n" PIPELINE(""));
  ck_assert_int_eq(config->log_level, CONFIG_LOG_DEBUG);
  ck_assert_uint_eq(config->lanes, 7);
  ck_assert_int_eq(config->drain_timeout_ns, 1500000000);
  ck_assert_str_eq(config->status.socket, "s.sock");
  ck_assert_str_eq(config->status.http, "[::1]:9464");
  ck_assert_str_eq(config->status.token, "/t");
  ck_assert_int_eq(config->gpu.backend, CONFIG_BACKEND_CPU);
  ck_assert_uint_eq(config->gpu.device, 3);
  ck_assert_int_eq(config->gpu.timeout_ns, 250000000);
  ck_assert_uint_eq(config->pipelines[0].device, 3);
  config_free(config);
}
END_TEST

START_TEST(a_pipeline_is_set) {
  struct config *config =
      fixture_config(PIPELINE("    device: 2\n    slots: 16\n    completion: spin\n    spin_for: 1ms\n    graph: off\n"
                              "    overload: drop-oldest\n    deadline: 50ms\n") "gpu: {device: 1}\n");
  const struct config_pipeline *pipeline = &config->pipelines[0];
  ck_assert_uint_eq(pipeline->device, 2);
  ck_assert_uint_eq(pipeline->slots, 16);
  ck_assert_int_eq(pipeline->completion, CONFIG_COMPLETION_SPIN);
  ck_assert_int_eq(pipeline->graph, CONFIG_GRAPH_OFF);
  ck_assert_int_eq(pipeline->spin_for_ns, 1000000);
  ck_assert_int_eq(pipeline->overload, CONFIG_OVERLOAD_DROP_OLDEST);
  ck_assert_int_eq(pipeline->deadline_ns, 50000000);
  config_free(config);
}
END_TEST

START_TEST(a_replying_socket_is_set) {
  struct config *config =
      fixture_config(SOURCE("socket: in, clients: 1024, timeout: 2min, expect: 1.5s, mode: '600', owner: root, group: 7, "
                            "allow: {users: [root, 65534], groups: [root]}, format: {dtype: float32, shape: [3, 480, 640]}",
                            "    sink: {reply: true, protocol: raw}\n"));
  const struct config_source *source = &config->pipelines[0].source;
  ck_assert_uint_eq(source->clients, 1024);
  ck_assert_int_eq(source->timeout_ns, 120000000000);
  ck_assert_int_eq(source->expect_ns, 1500000000);
  ck_assert_uint_eq(source->access.mode, 0600);
  ck_assert_uint_eq(source->access.owner, 0);
  ck_assert_uint_eq(source->access.group, 7);
  ck_assert_uint_eq(source->access.allow.user_count, 2);
  ck_assert_uint_eq(source->access.allow.users[1], 65534);
  ck_assert_uint_eq(source->access.allow.group_count, 1);
  ck_assert(source->format.is_tensor);
  ck_assert_uint_eq(source->format.dtype, 1);
  ck_assert_uint_eq(source->format.rank, 3);
  ck_assert_uint_eq(source->format.shape[2], 640);
  ck_assert_int_eq(config->pipelines[0].sink.endpoint, CONFIG_REPLY);
  ck_assert_int_eq(config->pipelines[0].sink.overload, CONFIG_SINK_BLOCK);
  ck_assert_ptr_null(config->pipelines[0].sink.path);
  config_free(config);
}
END_TEST

START_TEST(files_are_set) {
  struct config *config = fixture_config(SOURCE("file: in.y4m, protocol: y4m, rate: 29.97, loop: true, "
                                                "format: {pixels: yuv420p, width: 65536, height: 1}",
                                                "    sink: {file: \"-\", protocol: y4m}\n"));
  const struct config_source *source = &config->pipelines[0].source;
  ck_assert_int_eq(source->endpoint, CONFIG_FILE);
  ck_assert_str_eq(source->path, "in.y4m");
  ck_assert_int_eq(source->protocol, CONFIG_PROTOCOL_Y4M);
  ck_assert_double_eq(source->rate, 29.97);
  ck_assert(source->loop);
  ck_assert_uint_eq(source->format.pixels, 2);
  ck_assert_uint_eq(source->format.width, 65536);
  ck_assert_str_eq(config->pipelines[0].sink.path, "-");
  ck_assert_int_eq(config->pipelines[0].sink.overload, CONFIG_SINK_BLOCK);
  config_free(config);
}
END_TEST

START_TEST(stages_are_set) {
  struct config *config = fixture_config(PIPELINE("    stages:\n      - sobel\n      - affine: {scale: -2.5e-1}\n"
                                                  "      - convert: {to: rgb24}\n      - normalize: {mean: [1, 2, 3], std: 4}\n"
                                                  "      - work:\n"));
  const struct config_pipeline *pipeline = &config->pipelines[0];
  ck_assert_uint_eq(pipeline->stage_count, 5);
  const struct config_stage *affine = &pipeline->stages[1];
  ck_assert_str_eq(fixture_vocabulary.stages[affine->type].name, "affine");
  ck_assert(affine->values[0].given && !affine->values[1].given);
  ck_assert_double_eq(affine->values[0].numbers[0], -0.25);
  ck_assert_double_eq(affine->values[1].numbers[0], 0);
  ck_assert_double_eq(pipeline->stages[2].values[0].numbers[0], 1);
  ck_assert_double_eq(pipeline->stages[2].values[1].numbers[0], 1);
  ck_assert_uint_eq(pipeline->stages[3].values[0].count, 3);
  ck_assert_double_eq(pipeline->stages[3].values[0].numbers[2], 3);
  ck_assert_uint_eq(pipeline->stages[3].values[1].count, 1);
  ck_assert(!pipeline->stages[4].values[0].given);
  ck_assert_double_eq(pipeline->stages[4].values[0].numbers[0], 10);
  config_free(config);
}
END_TEST

START_TEST(marks_say_where_things_stand) {
  struct config *config = fixture_config(PIPELINE("    stages:\n      - sobel\n"));
  const struct config_pipeline *pipeline = &config->pipelines[0];
  ck_assert_str_eq(pipeline->at.file, "t.yaml");
  ck_assert_uint_eq(pipeline->at.line, 2);
  ck_assert_uint_eq(pipeline->source.at.line, 3);
  ck_assert_uint_eq(pipeline->source.at.column, 5);
  ck_assert_uint_eq(pipeline->source.path_at.column, 22);
  ck_assert_uint_eq(pipeline->source.format.at.column, 34);
  ck_assert_uint_eq(pipeline->sink.at.line, 4);
  ck_assert_uint_eq(pipeline->stages[0].at.line, 6);
  ck_assert_uint_eq(config->status.socket_at.line, 0);
  config_free(config);
}
END_TEST

START_TEST(empty_sections_mean_their_defaults) {
  struct config *config = fixture_config("log:\nstatus: ~\ngpu: null\n" PIPELINE("    stages:\n"));
  ck_assert_int_eq(config->log_level, CONFIG_LOG_INFO);
  ck_assert_uint_eq(config->pipelines[0].stage_count, 0);
  config_free(config);
}
END_TEST

START_TEST(no_pipelines_can_be_said) {
  struct config *config = fixture_config("pipelines: {}\n");
  ck_assert_uint_eq(config->pipeline_count, 0);
  config_free(config);
}
END_TEST

START_TEST(a_path_may_have_all_bytes_that_sun_path_has) {
  char text[512];
  snprintf(text, sizeof text, PIPELINE("") "status: {socket: /%s%s123456}\n", FIFTY, FIFTY);
  struct config *config = fixture_config(text);
  ck_assert_uint_eq(strlen(config->status.socket), 107);
  config_free(config);
}
END_TEST

/* One entry more is an error: each may cost a look-up. */
START_TEST(up_to_256_users_are_allowed) {
  for (int count = 256; count <= 257; count++) {
    char list[2048] = "";
    for (int i = 0; i < count; i++) {
      snprintf(list + 3 * i, sizeof list - 3 * (size_t)i, "7, ");
    }
    char text[4096];
    snprintf(text, sizeof text, SOURCE("socket: in, allow: {users: [%s]}, " FORMAT, SINK), list);
    struct reading reading = fixture_read(text);
    ck_assert_msg((reading.config != NULL) == (count == 256), "%s", reading.report);
    ck_assert(count == 256 || strstr(reading.report, "'users' has more than 256 entries"));
    fixture_end(&reading);
  }
}
END_TEST

START_TEST(devices_are_all_or_those_listed) {
  struct config *config = fixture_config(PIPELINE("    devices: all\n") "gpu: {device: 1, count: 4}\n");
  ck_assert_uint_eq(config->gpu.count, 4);
  ck_assert(config->pipelines[0].devices == CONFIG_ALL_DEVICES);
  ck_assert_uint_eq(config->pipelines[0].device, 1);
  config_free(config);
  config = fixture_config(PIPELINE("    devices: [5, 3, 5]\n"));
  ck_assert(config->pipelines[0].devices == (1 << 3 | 1 << 5));
  ck_assert_uint_eq(config->pipelines[0].device, 3);
  config_free(config);
  config = fixture_config(PIPELINE("    devices: all\n    spread: frames\n"));
  ck_assert_int_eq(config->pipelines[0].spread, CONFIG_SPREAD_FRAMES);
  config_free(config);
  config = fixture_config(PIPELINE("    device: 2\n"));
  ck_assert_int_eq(config->pipelines[0].spread, CONFIG_SPREAD_SESSIONS);
  ck_assert(config->pipelines[0].devices == 0);
  config_free(config);
}
END_TEST

START_TEST(devices_may_be_written_by_many) {
  config_free(fixture_config("pipelines:\n  a: {source: {socket: a, " FORMAT "}, sink: {file: /dev/null}}\n"
                             "  b: {source: {socket: b, " FORMAT "}, sink: {file: /dev/null}}\n"));
}
END_TEST

START_TEST(a_file_may_be_read_by_many) {
  config_free(fixture_config("pipelines:\n  a: {source: {file: in, " FORMAT "}, sink: {socket: a}}\n"
                             "  b: {source: {file: in, " FORMAT "}, sink: {socket: b}}\n"));
}
END_TEST

Suite *values_suite(void);

/* Three slots would never overlap there. */
START_TEST(drop_oldest_has_slots_enough_to_overlap) {
  static const struct {
    const char *keys;
    unsigned slots;
  } cases[] = {
      {"    overload: drop-oldest\n", 4}, {"    overload: drop-oldest\n    slots: 3\n", 3}, {"    overload: drop-newest\n", 2}};
  char text[512];
  snprintf(text, sizeof text, "%s%s", PIPELINE(""), cases[_i].keys);
  struct config *config = fixture_config(text);
  ck_assert_uint_eq(config->pipelines[0].slots, cases[_i].slots);
  config_free(config);
}
END_TEST

Suite *values_suite(void) {
  Suite *suite = suite_create("values");
  TCase *meaning = tcase_create("meaning");
  tcase_add_loop_test(meaning, drop_oldest_has_slots_enough_to_overlap, 0, 3);
  tcase_add_test(meaning, defaults_are_those_of_the_manual);
  tcase_add_test(meaning, pipeline_defaults_are_those_of_the_manual);
  tcase_add_test(meaning, socket_defaults_are_those_of_the_manual);
  tcase_add_test(meaning, the_whole_daemon_is_set);
  tcase_add_test(meaning, a_pipeline_is_set);
  tcase_add_test(meaning, a_replying_socket_is_set);
  tcase_add_test(meaning, files_are_set);
  tcase_add_test(meaning, stages_are_set);
  tcase_add_test(meaning, marks_say_where_things_stand);
  tcase_add_test(meaning, empty_sections_mean_their_defaults);
  tcase_add_test(meaning, no_pipelines_can_be_said);
  tcase_add_test(meaning, a_path_may_have_all_bytes_that_sun_path_has);
  tcase_add_test(meaning, up_to_256_users_are_allowed);
  tcase_add_test(meaning, devices_are_all_or_those_listed);
  tcase_add_test(meaning, devices_may_be_written_by_many);
  tcase_add_test(meaning, a_file_may_be_read_by_many);
  suite_add_tcase(suite, meaning);
  return suite;
}
