/* The fill step with both protocols: a stream gives the same frames wherever its reads are split. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "daemon/frame/receive.h"

enum { WIDTH = 3, HEIGHT = 2, BYTES = WIDTH * HEIGHT, SLOTS = 4 };

static struct flow flow;
static struct account account;
static struct receive receive;
static unsigned char memory[SLOTS][BYTES];
static unsigned char discard[RECEIVE_DISCARD];

static void set_up(enum config_protocol protocol, enum config_overload overload) {
  struct frame_format format = format_image(PIXELS_GRAY, WIDTH, HEIGHT);
  memset(&flow, 0, sizeof flow);
  memset(&account, 0, sizeof account);
  slot_ring_init(&flow.ring, SLOTS);
  flow.account = &account;
  flow.input_bytes = flow.output_bytes = BYTES;
  flow.overload = overload;
  for (unsigned i = 0; i < SLOTS; i++) {
    flow.ring.slots[i].input = memory[i];
  }
  receive_init(&receive, &flow, protocol, &format, discard);
}

/* Gives at most `count` bytes to wherever the fill step wants them; returns how many it took, -1: malformed. */
static int give(const char *bytes, size_t count) {
  struct iovec vector[RECEIVE_VECTORS];
  int vectors = receive_vector(&receive, vector, 1);
  if (vectors < 0) {
    return -1;
  }
  size_t given = 0;
  for (int i = 0; i < vectors && given < count; i++) {
    size_t part = vector[i].iov_len < count - given ? vector[i].iov_len : count - given;
    memcpy(vector[i].iov_base, bytes + given, part);
    given += part;
  }
  return given == 0 || receive_advance(&receive, given, 1, 1) ? (int)given : -1;
}

static bool give_all(const char *bytes, size_t count, size_t at_once) {
  while (count > 0) {
    int given = give(bytes, count < at_once ? count : at_once);
    ck_assert_int_ne(given, 0);
    if (given < 0) {
      return false;
    }
    bytes += given;
    count -= (size_t)given;
  }
  return receive_vector(&receive, (struct iovec[RECEIVE_VECTORS]){{0}}, 1) >= 0;
}

static void expect_frame(uint64_t sequence, const char *content) {
  struct slot *slot = slot_oldest(&flow.ring, SLOT_READY);
  ck_assert_ptr_nonnull(slot);
  ck_assert_uint_eq(slot->frame.sequence, sequence);
  ck_assert_mem_eq(slot->input, content, BYTES);
  flow_drop(&flow, slot, FATE_EMITTED, 1);
}

static const char y4m_stream[] = "YUV4MPEG2 W3 H2 F30:1 Ip A1:1 Cmono XCOLORRANGE=FULL\n"
                                 "FRAME\nabcdef"
                                 "FRAME Ip XSOMETHING\nghijkl"
                                 "FRAME\nmnopqr";

START_TEST(test_y4m_split_at_every_byte) {
  set_up(CONFIG_PROTOCOL_Y4M, CONFIG_OVERLOAD_BLOCK);
  ck_assert(give_all(y4m_stream, (size_t)_i, sizeof y4m_stream));
  ck_assert(give_all(y4m_stream + _i, sizeof y4m_stream - 1 - (size_t)_i, sizeof y4m_stream));
  expect_frame(0, "abcdef");
  expect_frame(1, "ghijkl");
  expect_frame(2, "mnopqr");
  ck_assert_uint_eq(account.now.ledger.in, 3);
  ck_assert(receive_end(&receive, FATE_INVALID, 1));
}
END_TEST

START_TEST(test_y4m_in_pieces_of_every_size) {
  set_up(CONFIG_PROTOCOL_Y4M, CONFIG_OVERLOAD_BLOCK);
  ck_assert(give_all(y4m_stream, sizeof y4m_stream - 1, (size_t)_i));
  expect_frame(0, "abcdef");
  expect_frame(1, "ghijkl");
  expect_frame(2, "mnopqr");
}
END_TEST

START_TEST(test_raw_fills_several_slots_in_one_read) {
  set_up(CONFIG_PROTOCOL_RAW, CONFIG_OVERLOAD_BLOCK);
  ck_assert_int_eq(give("abcdefghijklmno", 15), 15);
  ck_assert_uint_eq(slot_count(&flow.ring, SLOT_READY), 2);
  ck_assert_uint_eq(slot_count(&flow.ring, SLOT_FILLING), 1);
  expect_frame(0, "abcdef");
  expect_frame(1, "ghijkl");
  ck_assert(!receive_end(&receive, FATE_INVALID, 1));
  ck_assert_uint_eq(account.now.ledger.fates[FATE_INVALID], 1);
  ck_assert_uint_eq(account.now.ledger.in, 3);
  ck_assert_uint_eq(slot_count(&flow.ring, SLOT_FREE), SLOTS);
}
END_TEST

START_TEST(test_raw_bytes_of_another_protocol_are_taken_and_known) {
  set_up(CONFIG_PROTOCOL_RAW, CONFIG_OVERLOAD_BLOCK);
  ck_assert(give_all("FRMDabFRMD", 10, (size_t)_i));
  ck_assert_int_eq(receive.foreign, STRANGER_NATIVE);
  expect_frame(0, "FRMDab");
  receive_end(&receive, FATE_INVALID, 1);
  receive_start(&receive);
  ck_assert_int_eq(receive.foreign, STRANGER_UNKNOWN);
  ck_assert(give_all("abcdefFRMD", 10, (size_t)_i));
  ck_assert_int_eq(receive.foreign, STRANGER_UNKNOWN);
}
END_TEST

/* Frames so small that one read of the header holds more of them than there are slots. */
START_TEST(test_staged_frames_wait_for_slots) {
  char stream[400] = "YUV4MPEG2 W3 H2 Cmono\n";
  size_t length = strlen(stream);
  for (int i = 0; i < 12; i++) {
    length += (size_t)snprintf(stream + length, sizeof stream - length, "FRAME\nabcde%c", 'A' + i);
  }
  set_up(CONFIG_PROTOCOL_Y4M, CONFIG_OVERLOAD_BLOCK);
  size_t at = 0;
  for (unsigned seen = 0; seen < 12;) {
    int given = give(stream + at, length - at);
    ck_assert_int_ge(given, 0);
    at += (size_t)given;
    if (given == 0 || at == length) {
      char expected[] = "abcde?";
      expected[5] = (char)('A' + seen);
      expect_frame(seen++, expected);
    }
  }
  ck_assert_uint_eq(at, length);
}
END_TEST

START_TEST(test_drop_newest_keeps_numbers) {
  set_up(CONFIG_PROTOCOL_RAW, CONFIG_OVERLOAD_DROP_NEWEST);
  ck_assert(give_all("aaaaaabbbbbbccccccddddddeeeeeeff", 32, 7));
  ck_assert_uint_eq(account.now.ledger.fates[FATE_NEWEST], 2);
  expect_frame(0, "aaaaaa");
  ck_assert(give_all("ffffgggggg", 10, 3)); /* the rest of a dropped frame, and one that has a slot again */
  expect_frame(1, "bbbbbb");
  expect_frame(2, "cccccc");
  expect_frame(3, "dddddd");
  expect_frame(6, "gggggg");
}
END_TEST

START_TEST(test_held_at_the_boundary) {
  set_up(CONFIG_PROTOCOL_RAW, CONFIG_OVERLOAD_BLOCK);
  ck_assert_int_eq(give("abc", 3), 3);
  receive.held = true;
  ck_assert_int_eq(give("defghi", 6), 3); /* the frame that has begun goes on, no other begins */
  ck_assert_int_eq(give("ghi", 3), 0);
  receive.held = false;
  ck_assert_int_eq(give("ghi", 3), 3);
}
END_TEST

static const struct {
  const char *stream;
  const char *problem;
  unsigned frames;
} malformed[] = {
    {"RIFF", "must begin with 'YUV4MPEG2 '", 0},
    {"FRAME\nabcdef", "must begin with 'YUV4MPEG2 '", 0},
    {"FRMD\1", "this is framed's native protocol", 0},
    {"GET /v1/status HTTP/1.1", "this is HTTP", 0},
    {"YUV4MPEG2 W3 H2 Cmono\nFRAMES\n", "must begin with FRAME", 1},
    {"YUV4MPEG2 W3 H2 Cmono\nFRAME\nabcdefGARBAGE", "must begin with FRAME", 2},
    {"YUV4MPEG2 W4 H2 Cmono\n", "the stream is gray 4x2, but the pipeline's format is gray 3x2", 0},
    {"YUV4MPEG2 W3 H2\n", "the stream is yuv420p 3x2", 0},
    {"YUV4MPEG2 W3 H2 C422\n", "colour space 'C422' is not supported", 0},
    {"YUV4MPEG2 W3 H2 C420p10\n", "colour space 'C420p10' is not supported", 0},
    {"YUV4MPEG2 W99999999999999999999 H2 Cmono\n", "is not a size", 0},
    {"YUV4MPEG2 W-3 H2 Cmono\n", "is not a size", 0},
    {"YUV4MPEG2 W H2 Cmono\n", "is not a size", 0},
    {"YUV4MPEG2 H2 Cmono\n", "no width (W)", 0},
    {"YUV4MPEG2 W3 Cmono\n", "no height (H)", 0},
    {"YUV4MPEG2\n", "no width (W)", 0},
};

START_TEST(test_malformed) {
  for (size_t piece = 1; piece <= 64; piece += 21) {
    set_up(CONFIG_PROTOCOL_Y4M, CONFIG_OVERLOAD_BLOCK);
    ck_assert_msg(!give_all(malformed[_i].stream, strlen(malformed[_i].stream), piece), "%s", malformed[_i].stream);
    ck_assert_msg(strstr(receive.problem, malformed[_i].problem), "%s: %s", malformed[_i].stream, receive.problem);
    receive_end(&receive, FATE_INVALID, 1);
    ck_assert_uint_eq(account.now.ledger.in, malformed[_i].frames);
  }
}
END_TEST

START_TEST(test_header_too_long) {
  char header[PROTOCOL_LINE + 100];
  memset(header, 'X', sizeof header);
  memcpy(header, "YUV4MPEG2 W3 H2 ", 16);
  set_up(CONFIG_PROTOCOL_Y4M, CONFIG_OVERLOAD_BLOCK);
  ck_assert(!give_all(header, sizeof header, 100));
  ck_assert_str_eq(receive.problem, "a y4m header is longer than 1024 bytes");
}
END_TEST

START_TEST(test_own_header_is_understood) {
  char header[Y4M_HEADER];
  char problem[PROTOCOL_PROBLEM];
  static const enum pixel_format carried[] = {PIXELS_GRAY, PIXELS_YUV420P};
  for (size_t i = 0; i < 2; i++) {
    struct frame_format format = format_image(carried[i], 641, 479);
    ck_assert(y4m_carries(&format));
    struct frame_rate rate = {.frames = UINT32_MAX, .seconds = 1001};
    struct y4m_look look = {
        .fields = 3, .siting = i == 0 ? 0 : 2, .range = 2, .says_aspect = 1, .sample_width = UINT32_MAX, .sample_height = 11};
    struct frame_rate found;
    struct y4m_look seen;
    size_t length = y4m_write_header(&format, &rate, &look, header);
    ck_assert_uint_lt(length, Y4M_HEADER);
    ck_assert_msg(y4m_check_header(header, length - 1, &format, &found, &seen, problem), "%s", problem);
    ck_assert_uint_eq(found.frames, UINT32_MAX);
    ck_assert_uint_eq(found.seconds, 1001);
    ck_assert_mem_eq(&seen, &look, sizeof look);
  }
  struct frame_format other = format_image(PIXELS_RGB24, 4, 4);
  ck_assert(!y4m_carries(&other));
}
END_TEST

static const struct {
  const char *word;
  uint32_t frames, seconds;
} rates[] = {
    {"F30:1", 30, 1},        {"F30000:1001", 30000, 1001},
    {"F1:10", 1, 10},        {"F4294967295:4294967295", UINT32_MAX, UINT32_MAX},
    {"F0:0", 0, 0},          {"F30:0", 0, 0},
    {"F0:1", 0, 0},          {"F", 0, 0},
    {"F30", 0, 0},           {"F:1", 0, 0},
    {"F30:", 0, 0},          {"F-30:1", 0, 0},
    {"F30:1:1", 0, 0},       {"F30.5:1", 0, 0},
    {"F4294967296:1", 0, 0}, {"F30:99999999999999999999", 0, 0},
    {"XF30:1", 0, 0},        {"Ip", 0, 0},
};

START_TEST(test_rate_of_a_header) {
  char stream[200];
  snprintf(stream, sizeof stream, "YUV4MPEG2 W3 %s H2 Cmono\nFRAME\nabcdef", rates[_i].word);
  set_up(CONFIG_PROTOCOL_Y4M, CONFIG_OVERLOAD_BLOCK);
  ck_assert(give_all(stream, strlen(stream), sizeof stream));
  const struct slot *slot = slot_oldest(&flow.ring, SLOT_READY);
  ck_assert_uint_eq(slot->frame.rate.frames, rates[_i].frames);
  ck_assert_uint_eq(slot->frame.rate.seconds, rates[_i].seconds);
}
END_TEST

/* The header's word counts before the source's own, and only for the producer that said it. */
START_TEST(test_rate_of_a_source) {
  set_up(CONFIG_PROTOCOL_Y4M, CONFIG_OVERLOAD_BLOCK);
  receive.rate = (struct frame_rate){.frames = 5, .seconds = 1};
  ck_assert(give_all("YUV4MPEG2 W3 H2 Cmono F7:2\nFRAME\nabcdef", 39, 100));
  ck_assert(receive_end(&receive, FATE_INVALID, 1));
  receive_start(&receive);
  ck_assert(give_all("YUV4MPEG2 W3 H2 Cmono\nFRAME\nabcdef", 34, 100));
  ck_assert_uint_eq(slot_at(&flow.ring, SLOT_READY, 0)->frame.rate.frames, 7);
  ck_assert_uint_eq(slot_at(&flow.ring, SLOT_READY, 1)->frame.rate.frames, 5);
}
END_TEST

static const struct {
  const char *said, *kept;
} looks[] = {
    {"Ip A1:1 C420jpeg", "Ip A1:1 C420jpeg"},
    {"It A16:11 C420paldv XCOLORRANGE=FULL", "It A16:11 C420paldv XCOLORRANGE=FULL"},
    {"XCOLORRANGE=LIMITED C420mpeg2 A0:0 Ib", "Ib A0:0 C420mpeg2 XCOLORRANGE=LIMITED"},
    {"I? XYSCSS=420", "I? A1:1 C420jpeg"},
    {"Im C420", "I? A1:1 C420jpeg"}, /* its frames' own words are not passed on */
    {"", "Ip A1:1 C420jpeg"},
    {"Ix A16 XCOLORRANGE=HALF", "Ip A1:1 C420jpeg"},
    {"I A0:1 XCOLORRANGE=", "Ip A1:1 C420jpeg"},
    {"Itt A4294967296:1 XCOLORRANGE=FULLER", "Ip A1:1 C420jpeg"},
};

START_TEST(test_look_of_a_header) {
  const struct frame_format format = format_image(PIXELS_YUV420P, 4, 2);
  char said[PROTOCOL_LINE], kept[PROTOCOL_LINE], header[Y4M_HEADER], problem[PROTOCOL_PROBLEM];
  struct frame_rate rate;
  struct y4m_look look;
  int length = snprintf(said, sizeof said, "YUV4MPEG2 W4 H2 F9:2 %s", looks[_i].said);
  ck_assert_msg(y4m_check_header(said, (size_t)length, &format, &rate, &look, problem), "%s", problem);
  ck_assert(y4m_look_is_sound(&look));
  header[y4m_write_header(&format, &rate, &look, header) - 1] = '\0';
  snprintf(kept, sizeof kept, "YUV4MPEG2 W4 H2 F9:2 %s", looks[_i].kept);
  ck_assert_str_eq(header, kept);
}
END_TEST

START_TEST(test_a_look_of_another_process_is_checked) {
  static const struct y4m_look unsound[] = {{.fields = 4}, {.siting = 3}, {.range = 3}, {.says_aspect = 2}};
  ck_assert(!y4m_look_is_sound(&unsound[_i]));
}
END_TEST

static const struct {
  double frames_a_second;
  uint32_t frames, seconds;
} numbers[] = {{0, 0, 1000},          {30, 30, 1},          {1000000, 1000000, 1}, {29.97, 30000, 1001},
               {23.976, 24000, 1001}, {59.94, 60000, 1001}, {12.5, 12500, 1000},   {0.1, 100, 1000}};

START_TEST(test_rate_of_a_number) {
  struct frame_rate rate = y4m_rate_of(numbers[_i].frames_a_second);
  ck_assert_uint_eq(rate.frames, numbers[_i].frames);
  ck_assert_uint_eq(rate.seconds, numbers[_i].seconds);
}
END_TEST

Suite *receive_suite(void);

Suite *receive_suite(void) {
  Suite *suite = suite_create("receive");
  TCase *tests = tcase_create("fill");
  tcase_add_loop_test(tests, test_y4m_split_at_every_byte, 0, (int)sizeof y4m_stream);
  tcase_add_loop_test(tests, test_y4m_in_pieces_of_every_size, 1, (int)sizeof y4m_stream);
  tcase_add_test(tests, test_raw_fills_several_slots_in_one_read);
  tcase_add_loop_test(tests, test_raw_bytes_of_another_protocol_are_taken_and_known, 1, 11);
  tcase_add_test(tests, test_staged_frames_wait_for_slots);
  tcase_add_test(tests, test_drop_newest_keeps_numbers);
  tcase_add_test(tests, test_held_at_the_boundary);
  tcase_add_loop_test(tests, test_malformed, 0, (int)(sizeof malformed / sizeof malformed[0]));
  tcase_add_test(tests, test_header_too_long);
  tcase_add_test(tests, test_own_header_is_understood);
  tcase_add_loop_test(tests, test_rate_of_a_header, 0, (int)(sizeof rates / sizeof rates[0]));
  tcase_add_loop_test(tests, test_look_of_a_header, 0, sizeof looks / sizeof looks[0]);
  tcase_add_loop_test(tests, test_a_look_of_another_process_is_checked, 0, 4);
  tcase_add_test(tests, test_rate_of_a_source);
  tcase_add_loop_test(tests, test_rate_of_a_number, 0, (int)(sizeof numbers / sizeof numbers[0]));
  suite_add_tcase(suite, tests);
  return suite;
}
