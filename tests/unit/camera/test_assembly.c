/* Pictures from packets of RTP: whole in any case, and at once where the guess has been proved. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"
#include "tools/camera/assembly.h"
#include "tools/camera/avlog.h"

enum { FULL = 1000, PROVED = 60, MOST = 64 * FULL };

static struct assembly assembly;
static AVPacket *packet;
static int64_t now, pts;
static unsigned char picture[MOST]; /* what was sent of the picture */
static int sent;
static int pieces;           /* in which it came out */
static bool early, is_whole; /* it came out before the next one began; with just its bytes */

static void begin_codec(enum AVCodecID codec) {
  AVCodecParameters *about = avcodec_parameters_alloc();
  about->codec_id = codec;
  about->codec_type = AVMEDIA_TYPE_VIDEO;
  ck_assert(assembly_open(&assembly, about));
  avcodec_parameters_free(&about);
  packet = av_packet_alloc();
  avlog_begin(); /* the parser complains about payload of chance */
  pts = 1000;
  sent = 0;
}

static void begin(void) { begin_codec(AV_CODEC_ID_H264); }

static void end(void) {
  assembly_close(&assembly);
  av_packet_free(&packet);
}

static void check_picture(void) {
  pieces++;
  is_whole = packet->size == sent && memcmp(packet->data, picture, (size_t)sent) == 0;
  av_packet_unref(packet);
}

/* Sends one packet of `size` bytes. `type`: of the NAL unit that begins there; -1: the packet continues one. */
static void send_packet(int size, int type) {
  int64_t arrival;
  ck_assert_int_eq(av_new_packet(packet, size), 0);
  memset(packet->data, 1 + rand() % 255, (size_t)size);
  if (type >= 0) {
    const unsigned char head[] = {0, 0, 0, 1, (unsigned char)(assembly.codec == AV_CODEC_ID_H264 ? type : type << 1)};
    memcpy(packet->data, head, sizeof head);
  }
  packet->pts = pts;
  memcpy(picture + sent, packet->data, (size_t)size);
  sent += size;
  if (assembly_put(&assembly, packet, ++now, &arrival)) {
    early = true;
    check_picture();
  }
}

/* The next picture begins: the one before comes out by now. */
static void next_picture(void) {
  static unsigned char before[MOST];
  int64_t arrival;
  int bytes = sent;
  memcpy(before, picture, sizeof before);
  pts += 3600;
  sent = 0;
  ck_assert_int_eq(av_new_packet(packet, 10), 0);
  memset(packet->data, 9, 10);
  memcpy(packet->data, "\0\0\0\1", 4);
  packet->data[4] = assembly.codec == AV_CODEC_ID_H264 ? 6 : 39 << 1; /* an SEI */
  packet->pts = pts;
  memcpy(picture, packet->data, 10);
  sent = 10;
  if (assembly_put(&assembly, packet, ++now, &arrival)) {
    pieces++;
    is_whole = packet->size == bytes && memcmp(packet->data, before, (size_t)bytes) == 0;
    av_packet_unref(packet);
  }
}

static void begin_picture(void) {
  pieces = 0;
  early = is_whole = false;
}

/* Slices of one size, each in full packets and a rest. */
static void send_picture(int slices, int fragments, int rest, int type) {
  begin_picture();
  for (int slice = 0; slice < slices; slice++) {
    for (int i = 0; i < fragments; i++) {
      send_packet(i == 0 ? FULL + 3 : FULL - 2, i == 0 ? type : -1);
    }
    send_packet(rest, fragments == 0 ? type : -1);
  }
}

static void require_whole(void) {
  next_picture();
  require(pieces == 1 && is_whole, "%d pieces, whole %d", pieces, is_whole);
}

static void prove(int slices) {
  send_picture(slices, 3, 500, 1);
  require_whole();
  for (int i = 0; i < PROVED; i++) {
    send_picture(slices, i % 5 == 0 ? 4 : 1, 100 + i, i % 5 == 0 ? 5 : 1);
    require_whole();
  }
}

START_TEST(a_guess_that_is_proved_saves_the_wait) {
  prove(_i);
  send_picture(_i, 2, 300, 1);
  ck_assert(early);
  ck_assert_int_eq(pieces, 1);
  ck_assert(is_whole);
}
END_TEST

START_TEST(hevc_too) {
  end();
  begin_codec(AV_CODEC_ID_HEVC);
  send_picture(1, 3, 500, 1);
  require_whole();
  for (int i = 0; i < PROVED; i++) {
    send_picture(1, i % 5 == 0 ? 4 : 1, 100 + i, i % 5 == 0 ? 19 : 1);
    require_whole();
  }
  send_picture(1, 2, 300, 1);
  ck_assert(early);
  ck_assert(is_whole);
}
END_TEST

/* The last packet of a picture happens to be full. */
START_TEST(a_full_last_packet_waits_for_the_next_picture) {
  prove(1);
  send_picture(1, 2, FULL - 2, 1);
  ck_assert(!early);
  require_whole();
  send_picture(1, 2, 300, 1);
  ck_assert(early);
}
END_TEST

/* A packet that is not full in the middle of a picture, in each one: the guess is never proved. */
START_TEST(other_habits_are_never_guessed) {
  for (int i = 0; i < 200; i++) {
    begin_picture();
    send_packet(FULL + 3, 1);
    send_packet(500, -1);
    send_packet(500, -1);
    ck_assert(!early);
    require_whole();
  }
}
END_TEST

START_TEST(a_wrong_guess_costs_one_picture) {
  prove(1);
  send_picture(3, 1, 300, 1); /* three slices at once */
  ck_assert(early);
  next_picture();
  ck_assert_int_gt(pieces, 1);
  for (int i = 0; i < PROVED; i++) {
    send_picture(1, 1, 300, 1);
    ck_assert(!early);
    require_whole();
  }
}
END_TEST

/* A stream of chance: nothing gets lost or mixed up unless a guess was wrong. */
START_TEST(pictures_of_chance_stay_whole) {
  int wrong = 0;
  srand((unsigned)_i);
  for (int i = 0; i < 3000; i++) {
    send_picture(1 + rand() % 3, rand() % 4, 50 + rand() % (FULL - 100), rand() % 9 == 0 ? 5 : 1);
    next_picture();
    wrong += pieces != 1 || !is_whole;
  }
  ck_assert_int_lt(wrong, 30);
}
END_TEST

START_TEST(a_picture_without_end_takes_no_more_than_16_MiB) {
  for (int i = 0; i < 400; i++) {
    int64_t arrival;
    ck_assert_int_eq(av_new_packet(packet, 65000), 0);
    memset(packet->data, 1, 65000);
    packet->pts = pts;
    ck_assert(!assembly_put(&assembly, packet, ++now, &arrival));
    require(assembly.unit->size <= 16 << 20, "%d bytes", assembly.unit->size);
  }
}
END_TEST

Suite *assembly_suite(void);
Suite *assembly_suite(void) {
  Suite *suite = suite_create("assembly");
  TCase *cases = tcase_create("assembly");
  tcase_add_checked_fixture(cases, begin, end);
  tcase_add_loop_test(cases, a_guess_that_is_proved_saves_the_wait, 1, 4);
  tcase_add_test(cases, hevc_too);
  tcase_add_test(cases, a_full_last_packet_waits_for_the_next_picture);
  tcase_add_test(cases, other_habits_are_never_guessed);
  tcase_add_test(cases, a_wrong_guess_costs_one_picture);
  tcase_add_loop_test(cases, pictures_of_chance_stay_whole, 0, 4);
  tcase_add_test(cases, a_picture_without_end_takes_no_more_than_16_MiB);
  suite_add_tcase(suite, cases);
  return suite;
}
