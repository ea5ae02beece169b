/* A reader under `drop` goes on in the next process with the rest of a result that it is owed, if what was left makes sense. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sink/results.h"

enum { BYTES = 100, FROM = 20, TO = 60 };

static struct config_pipeline config;
static struct sink *sink;
static struct reader *left;

static void set_up(void) {
  static char name[] = "cam0", path[] = "/nowhere/socket";
  const struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){BYTES}, 1);
  struct failure failure;
  config = (struct config_pipeline){.name = name, .slots = 2};
  config.sink = (struct config_sink){.endpoint = CONFIG_SOCKET, .path = path};
  config.sink.overload = CONFIG_SINK_DROP;
  const struct sink_setup setup = {.config = &config, .output = &format};
  sink = sink_new(&setup, &failure);
  ck_assert_ptr_nonnull(sink);
  left = reader_new(sink, -1, &failure);
  ck_assert(left && reader_make_room(left) && image_open_left(dup(image_fd())));
  memset(left->room->bytes, 7, TO);
  left->rest.at = FROM;
  left->rest.end = TO;
  left->link = &sink->readers;
}

static void tear_down(void) {
  image_close_left();
  left = reader_free(left);
  sink = sink_free(sink);
}

static struct reader *adopt(void) {
  bool cut;
  return reader_adopt(sink, left, -1, NULL, NULL, &cut);
}

START_TEST(a_rest_is_taken_with_its_bytes) {
  struct reader *reader = adopt();
  ck_assert_ptr_nonnull(reader);
  ck_assert(reader->rest.at == FROM && reader->rest.end == TO);
  ck_assert_mem_eq(reader->room->bytes + FROM, left->room->bytes + FROM, TO - FROM);
  reader_free(reader);
}
END_TEST

START_TEST(whoever_shares_memory_is_owed_no_rest) {
  left->shared = (struct shared_reader *)(void *)left;
  ck_assert_ptr_null(adopt());
  left->shared = NULL;
}
END_TEST

START_TEST(a_rest_is_not_longer_than_its_room) {
  left->rest.end = sink_room_bytes(sink) + 1;
  ck_assert_ptr_null(adopt());
}
END_TEST

static struct flow *only_flow(void *flow, unsigned seat) {
  (void)seat;
  return flow;
}

START_TEST(who_is_cut_off_holds_no_rest_of_another) {
  static struct flow flow;
  bool cut;
  struct pending *shared = image_new(IMAGE_PENDING, sizeof *shared);
  ck_assert_ptr_nonnull(shared);
  shared->frame.open = true;
  left->rest.of = shared;
  struct reader *reader = sink->continuing = reader_adopt(sink, left, -1, only_flow, &flow, &cut);
  ck_assert(reader && reader->rest.of && reader->rest.of->holders == 1);
  left->sent = 1; /* of a result that is not there */
  ck_assert_ptr_null(reader_adopt(sink, left, -1, only_flow, &flow, &cut));
  ck_assert(cut && reader->rest.of->holders == 1 && flow.unsettled == 1);
  left->rest.of = NULL;
  image_free(shared);
  image_free(reader->rest.of);
}
END_TEST

Suite *adopt_suite(void);

Suite *adopt_suite(void) {
  Suite *suite = suite_create("adopt");
  TCase *tests = tcase_create("adopt");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, a_rest_is_taken_with_its_bytes);
  tcase_add_test(tests, whoever_shares_memory_is_owed_no_rest);
  tcase_add_test(tests, a_rest_is_not_longer_than_its_room);
  tcase_add_test(tests, who_is_cut_off_holds_no_rest_of_another);
  suite_add_tcase(suite, tests);
  return suite;
}
