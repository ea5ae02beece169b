/* Which devices sessions may be placed on, of those that are open. */
#include "daemon/pipeline/private.h"

#include "tests/unit/runner.h"

static struct engine engine;
static struct engine_placement places[2];
static struct failure failure;

static void open_devices(unsigned count, uint64_t devices) {
  static struct config_pipeline pipeline;
  pipeline = (struct config_pipeline){.name = (char *)(uintptr_t) "first", .slots = 2, .source.clients = 1, .devices = devices};
  const struct config config = {
      .gpu = {.backend = CONFIG_BACKEND_CPU, .count = count}, .pipelines = &pipeline, .pipeline_count = 1};
  engine = (struct engine){0};
  ck_assert(engine_open_devices(&engine, &config, NULL, &failure));
}

static bool place_on(uint64_t devices) {
  const struct config_pipeline pipeline = {.name = (char *)(uintptr_t) "other", .devices = devices};
  return engine_assign_devices(&engine, &pipeline, places, 2, 100, 0, &failure);
}

START_TEST(a_pipeline_that_comes_may_have_all_devices) {
  open_devices(1, 0);
  ck_assert_msg(place_on(CONFIG_ALL_DEVICES), "%s", failure.text);
  ck_assert_uint_eq(places[1].on[0].number, 0);
  engine_close_devices(&engine);
}
END_TEST

START_TEST(a_device_that_was_not_opened_is_named) {
  open_devices(3, 0x3);
  ck_assert(place_on(0x3));
  ck_assert(!place_on(CONFIG_ALL_DEVICES));
  ck_assert_str_eq(failure.text, "pipeline 'other' wants device 2, which was not in use when the daemon started");
  engine_close_devices(&engine);
}
END_TEST

/* The device is open until another process takes over, which would have no place for them. */
START_TEST(nobody_comes_to_a_device_that_is_drained) {
  open_devices(2, CONFIG_ALL_DEVICES);
  engine_leave_out(&engine, 1, ENGINE_DRAINED, "somebody asked for it");
  ck_assert(place_on(CONFIG_ALL_DEVICES));
  ck_assert_uint_eq(places[0].on[0].number, 0);
  ck_assert_uint_eq(places[1].on[0].number, 0);
  ck_assert(!place_on(0x2));
  ck_assert_str_eq(failure.text, "pipeline 'other' has no device: device 1 is left out (drained)");
  engine_close_devices(&engine);
}
END_TEST

static uint64_t spread_over(unsigned slots) {
  const struct config_pipeline pipeline = {
      .name = (char *)(uintptr_t) "other", .devices = CONFIG_ALL_DEVICES, .spread = CONFIG_SPREAD_FRAMES, .slots = slots};
  ck_assert_msg(engine_assign_devices(&engine, &pipeline, places, 1, 120, 100 * slots, &failure), "%s", failure.text);
  return engine_placement_bits(&places[0]);
}

/* Each of them has its part of the load, and the least loaded are first where there are fewer slots. */
START_TEST(frames_are_spread_over_all_that_are_open) {
  open_devices(4, CONFIG_ALL_DEVICES);
  ck_assert_uint_eq(spread_over(8), 0xF);
  ck_assert_str_eq(device_backend_name(places[0].device), "cpu");
  ck_assert_uint_eq(atomic_load(&engine.devices[3].load), 30);
  engine_release_devices(&engine, &places[0], 120);
  ck_assert_uint_eq(atomic_load(&engine.devices[3].load), 0);
  ck_assert(place_on(0x1));
  ck_assert_uint_eq(spread_over(2), 0x6);
  engine_release_devices(&engine, &places[0], 120);
  engine_leave_out(&engine, 3, ENGINE_DRAINED, "somebody asked for it");
  ck_assert_uint_eq(spread_over(8), 0x7);
  engine_release_devices(&engine, &places[0], 120);
  ck_assert_uint_eq(spread_over(1), 0x2);
  ck_assert_ptr_eq(places[0].device, engine_device(&engine, 1));
  engine_release_devices(&engine, &places[0], 120);
  engine_close_devices(&engine);
}
END_TEST

Suite *engine_devices_suite(void);
Suite *engine_devices_suite(void) {
  Suite *suite = suite_create("engine_devices");
  TCase *all = tcase_create("all");
  tcase_add_test(all, a_pipeline_that_comes_may_have_all_devices);
  tcase_add_test(all, a_device_that_was_not_opened_is_named);
  tcase_add_test(all, nobody_comes_to_a_device_that_is_drained);
  tcase_add_test(all, frames_are_spread_over_all_that_are_open);
  suite_add_tcase(suite, all);
  return suite;
}
