/* What daemon and worker say to each other comes through whole, and whatever is cut or changed is refused. */
#include "gpu/record/messages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/chance.h"
#include "tests/unit/runner.h"

enum { LABELS = 3, ROUNDS = 20000 };

static void fill_chain(struct chain_record *record, char *labels[LABELS]) {
  *record = (struct chain_record){.input = format_image(PIXELS_RGB24, 64, 48),
                                  .output = format_tensor(ELEMENT_FLOAT32, (const uint64_t[]){4, 6}, 2),
                                  .slot_bytes = 1234,
                                  .state_bytes = 56,
                                  .is_foreign = true,
                                  .has_model = true,
                                  .runs.holds = true,
                                  .spreads = {.error = {.stage = 1, .text = "it has a state", .remedy = "leave it out"}},
                                  .resides.holds = true,
                                  .labels = labels,
                                  .label_count = LABELS};
  record->output.meaning = MEANING_BOXES;
  record->model = (struct model_record){.summary = {.file = "m.onnx", .runtime = "1.28", .instances = 2},
                                        .input = {.name = "images", .rank = 1},
                                        .output_count = 1,
                                        .counts = 3};
}

static struct pack packed(void) {
  static char one[] = "person", two[] = "", three[] = "a car";
  char *labels[LABELS] = {one, two, three};
  struct chain_record record;
  struct pack pack = {.bytes = NULL};
  fill_chain(&record, labels);
  pack_chain_record(&pack, &record);
  return pack;
}

START_TEST(a_chain_comes_through) {
  struct pack pack = packed();
  struct unpack unpack = {.bytes = pack.bytes, .length = pack.length};
  struct chain_record record;
  ck_assert(unpack_chain_record(&unpack, &record));
  ck_assert_uint_eq(unpack.at, unpack.length);
  ck_assert_uint_eq(record.slot_bytes, 1234);
  ck_assert(record.runs.holds && record.resides.holds && !record.spreads.holds && record.is_foreign);
  ck_assert_str_eq(record.spreads.error.text, "it has a state");
  ck_assert_int_eq(record.output.meaning, MEANING_BOXES);
  ck_assert_str_eq(record.model.summary.file, "m.onnx");
  ck_assert_str_eq(record.labels[0], "person");
  ck_assert_str_eq(record.labels[2], "a car");
  chain_record_free(&record);
  free(pack.bytes);
}
END_TEST

START_TEST(a_chain_that_is_cut_is_refused) {
  struct pack pack = packed();
  for (size_t length = 0; length < pack.length; length++) {
    struct unpack unpack = {.bytes = pack.bytes, .length = length};
    struct chain_record record;
    ck_assert_msg(!unpack_chain_record(&unpack, &record), "%zu of %zu bytes", length, pack.length);
    chain_record_free(&record);
  }
  free(pack.bytes);
}
END_TEST

/* Whatever a worker changes, nothing is read or freed that must not be. */
START_TEST(a_chain_with_other_bytes_harms_nobody) {
  struct pack pack = packed();
  unsigned char *bytes = malloc(pack.length);
  chance_begin(1);
  for (int round = 0; round < ROUNDS; round++) {
    struct chain_record record;
    memcpy(bytes, pack.bytes, pack.length);
    for (unsigned changes = 1 + chance(4); changes > 0; changes--) {
      bytes[chance((unsigned)pack.length)] = (unsigned char)chance(256);
    }
    struct unpack unpack = {.bytes = bytes, .length = pack.length};
    (void)unpack_chain_record(&unpack, &record);
    chain_record_free(&record);
  }
  free(bytes);
  free(pack.bytes);
}
END_TEST

START_TEST(values_of_a_stage_come_through) {
  const struct stage_setting settings[] = {{.name = "one", .count = 2, .numbers = {1, 2}}, {.name = "two", .text = "text"}};
  const struct stage_value values[] = {{.given = true, .count = 1, .numbers = {0.5}},
                                       {.text = "a file"},
                                       {.given = true, .settings = settings, .setting_count = 2},
                                       {.given = true, .settings = settings, .setting_count = 1}};
  struct pack pack = {.bytes = NULL};
  struct stage_value got[4];
  pack_stage(&pack, values, 4);
  struct unpack unpack = {.bytes = pack.bytes, .length = pack.length};
  ck_assert(unpack_stage(&unpack, got, 4));
  ck_assert(got[0].given && got[0].numbers[0] == 0.5 && !got[0].text);
  ck_assert_str_eq(got[1].text, "a file");
  ck_assert_uint_eq(got[2].setting_count, 2);
  ck_assert_str_eq(got[2].settings[1].text, "text");
  ck_assert(got[3].settings[0].numbers[1] == 2);
  stage_values_free(got, 4);
  free(pack.bytes);
}
END_TEST

START_TEST(a_message_brings_its_bytes_and_descriptors) {
  int pair[2], pipe_ends[2];
  char byte = 0;
  struct pack pack = {.bytes = NULL};
  struct worker_message message;
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  ck_assert_int_eq(pipe(pipe_ends), 0);
  pack_text(&pack, "hello");
  ck_assert(worker_send(pair[0], &pack, &pipe_ends[1], 1));
  ck_assert(worker_receive(pair[1], &message));
  ck_assert_str_eq(unpack_text(&message.unpack), "hello");
  ck_assert_uint_eq(message.count, 1);
  ck_assert_int_eq(write(message.descriptors[0], "x", 1), 1);
  ck_assert_int_eq(read(pipe_ends[0], &byte, 1), 1);
  worker_message_free(&message);
  close(pair[0]);
  ck_assert(!worker_receive(pair[1], &message));
  worker_message_free(&message);
  free(pack.bytes);
}
END_TEST

Suite *messages_suite(void);

Suite *messages_suite(void) {
  Suite *suite = suite_create("messages");
  TCase *group = tcase_create("messages");
  tcase_add_test(group, a_chain_comes_through);
  tcase_add_test(group, a_chain_that_is_cut_is_refused);
  tcase_add_test(group, a_chain_with_other_bytes_harms_nobody);
  tcase_add_test(group, values_of_a_stage_come_through);
  tcase_add_test(group, a_message_brings_its_bytes_and_descriptors);
  suite_add_tcase(suite, group);
  return suite;
}
