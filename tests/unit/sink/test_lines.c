/* A sink of JSON: a line is made once for all readers, and goes over an upgrade as it was, with whoever is within it. */
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
  slot->frame = (struct frame){.tag = 7, .began = 99};
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
  sink->count = 0;
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

static const char expected[] = "{\"pipeline\":\"cam0\",\"sequence\":7,\"timestamp_ns\":99,"
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

/* Passes the sink, and a reader of it that has so many bytes of the line; whether that was taken. */
static bool pass(size_t sent, bool makes_line) {
  struct codec codec;
  struct failure failure;
  struct sink *sink = make_sink(), *next = make_sink();
  boxes[0][0] = 1;
  sink_offer(sink, &flow, make_slot());
  if (makes_line) {
    expect_line(sink);
  }
  codec_begin(&codec);
  sink_pass(sink, &codec, flow_of, NULL);
  codec.writing = false;
  make_slot()->frame.open = false;
  boxes[0][0] += makes_line ? 1 : 0; /* what is made anew would be another line */
  sink_pass(next, &codec, flow_of, NULL);
  ck_assert(!codec.broken);
  expect_line(next);
  struct reader *reader = reader_new(next, -1, &failure);
  reader->sent = sent;
  bool is_taken = reader_is_in_place(reader);
  reader_free(reader);
  codec_clear(&codec);
  free_sink(sink);
  free_sink(next);
  return is_taken;
}

START_TEST(a_line_goes_over_as_it_was) {
  ck_assert(pass(sizeof expected - 2, true));
  ck_assert(!pass(sizeof expected - 1, true));
}
END_TEST

START_TEST(a_line_that_nobody_needed_is_made_afterwards) {
  ck_assert(pass(0, false));
  ck_assert(!pass(sizeof expected - 1, false));
}
END_TEST

Suite *lines_suite(void);

Suite *lines_suite(void) {
  Suite *suite = suite_create("lines");
  TCase *tests = tcase_create("lines");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, a_line_is_made_once);
  tcase_add_test(tests, a_line_goes_over_as_it_was);
  tcase_add_test(tests, a_line_that_nobody_needed_is_made_afterwards);
  suite_add_tcase(suite, tests);
  return suite;
}
