/* A sink of JSON: a line is made once for all readers, and made again, the same, in the next process, also for who is within
 * it. */
#include <check.h>
#include <string.h>

#include "daemon/sink/results.h"

enum { ROWS = 3, COLUMNS = 6, SLOTS = 2 };

static struct lane *lane;
static struct flow flow;
static struct account account;
static struct config_pipeline config;
static float boxes[SLOTS][ROWS * COLUMNS];

static void no_wake(void *of) { (void)of; }

static struct sink *make_sink(void) {
  static char name[] = "cam0", path[] = "/nowhere/socket";
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){ROWS, COLUMNS}, 2);
  struct failure failure;
  format.meaning = MEANING_BOXES;
  config = (struct config_pipeline){.name = name, .slots = SLOTS};
  config.sink = (struct config_sink){.endpoint = CONFIG_SOCKET, .path = path, .protocol = CONFIG_PROTOCOL_JSON};
  const struct sink_setup setup = {.config = &config, .lane = lane, .output = &format};
  struct sink *sink = sink_new(&setup, &failure);
  ck_assert_ptr_nonnull(sink);
  sink->runner.lane = lane; /* as if it had joined */
  return sink;
}

/* A ring with one frame on its way out. */
static struct slot *make_slot(void) {
  memset(&flow, 0, sizeof flow);
  slot_ring_init(&flow.ring, SLOTS);
  flow.account = &account;
  flow.wake = no_wake;
  for (unsigned i = 0; i < SLOTS; i++) {
    flow.ring.slots[i].output = (unsigned char *)boxes[i];
  }
  struct slot *slot = slot_oldest(&flow.ring, SLOT_FREE);
  slot->frame = (struct frame){.sequence = 3, .epoch = 1700, .tag = 7, .began = 99};
  account_open(&account, &slot->frame);
  for (enum slot_state state = SLOT_FILLING; state <= SLOT_EMITTING; state++) {
    slot_move(&flow.ring, slot, state);
  }
  return slot;
}

static struct flow *flow_of(void *context, unsigned seat) {
  (void)context;
  return seat == 0 ? &flow : NULL;
}

static struct sink *free_sink(struct sink *sink) {
  sink->runner.lane = NULL;
  sink_abandon(sink);
  return sink_free(sink);
}

static void set_up(void) {
  struct failure failure;
  lane = lane_new(0, &failure);
  ck_assert_ptr_nonnull(lane);
  memset(boxes, 0, sizeof boxes);
  memcpy(boxes[0], (float[COLUMNS]){1, 2, 3, 4, 0.5F, 6}, COLUMNS * sizeof(float));
}

static void tear_down(void) { lane = lane_free(lane); }

static const char expected[] = "{\"pipeline\":\"cam0\",\"sequence\":7,\"timestamp_ns\":99,\"epoch\":1700,\"number\":3,"
                               "\"boxes\":[{\"x\":1,\"y\":2,\"width\":3,\"height\":4,\"score\":0.5,\"class\":6}]}\n";

static void expect_line(struct sink *sink) {
  struct payload payload = result_payload(sink_result(sink, sink->first));
  ck_assert_uint_eq(payload.count, strlen(expected));
  ck_assert_mem_eq(payload.bytes, expected, payload.count);
}

START_TEST(a_line_is_made_once) {
  struct sink *sink = make_sink();
  sink_offer(sink, &flow, make_slot());
  expect_line(sink);
  boxes[0][0] = 1000;
  expect_line(sink);
  free_sink(sink);
}
END_TEST

/* The next sink goes on with what this one had, and with a reader that has so many bytes of the line; whether that is taken. */
static bool adopt(size_t sent) {
  struct failure failure;
  struct sink *sink = make_sink(), *next = make_sink();
  sink_offer(sink, &flow, make_slot());
  expect_line(sink);
  make_slot()->frame.open = false;
  ck_assert(sink_adopt(next, sink, flow_of, NULL));
  expect_line(next);
  struct reader *reader = reader_new(next, -1, &failure);
  reader->sent = sent;
  bool is_taken = reader_position_is_valid(reader);
  reader_free(reader);
  free_sink(sink);
  free_sink(next);
  return is_taken;
}

START_TEST(a_line_is_made_again_in_the_next_process) {
  ck_assert(adopt(0));
  ck_assert(adopt(sizeof expected - 2));
  ck_assert(!adopt(sizeof expected - 1));
}
END_TEST

Suite *lines_suite(void);

Suite *lines_suite(void) {
  Suite *suite = suite_create("lines");
  TCase *tests = tcase_create("lines");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, a_line_is_made_once);
  tcase_add_test(tests, a_line_is_made_again_in_the_next_process);
  suite_add_tcase(suite, tests);
  return suite;
}
