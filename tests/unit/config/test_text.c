/* The canonical text: what it says, that it reads back as itself, and that damage never crashes the reader. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/config/fixture.h"

static const char *const rich =
    "log: {level: warning}\nlanes: 4\ndrain_timeout: 90s\nstatus: {socket: ./s, http: 127.0.0.1:9464, token: t}\n"
    "gpu: {backend: cpu, device: 1, count: 4, timeout: 1500ms}\n"
    "limits: {sessions_per_user: 3, memory_per_user: 1.5GiB}\n"
    "realtime: {cpus: [65, 2, 3, 2], lock: true, priority: 20, policy: rr}\n"
    "models:\n"
    "  plain: {file: /p.onnx}\n"
    "  person: {shape: {images: [1, 3, 640, 640], 'a b': [2]}, file: models/person.onnx, memory: 2048MiB,\n"
    "           precision: float32, instances: 3, output: all,\n"
    "           batch: {wait: 2ms, most: 16}}\n"
    "pipelines:\n"
    "  cam0:\n"
    "    devices: [2, 0]\n    spread: frames\n"
    "    source: {socket: /run/a b.sock, format: {pixels: gray, width: 640, height: 480}, owner: 0, group: 5,\n"
    "             allow: {users: [0, 1], groups: [2]}, mode: '0600', clients: 2, timeout: 3s, expect: 5s}\n"
    "    slots: 4\n    completion: spin\n    overload: drop-oldest\n    deadline: 0.05s\n    priority: high\n    share: "
    "{percent: 030}\n"
    "    stages: [affine: {offset: 1e-3, scale: 2.50}, sobel, normalize: {mean: [1, 2, 3]}, convert: {to: gray},\n"
    "             run: {settings: {gain: 1.50, 'a b': [2, 3], mode: fast}, entry: main, file: lib/x.so},\n"
    "             model: {name: person}, model: {file: own.onnx, shape: {x: [1, 8]}}]\n"
    "    sink: {reply: true}\n"
    "  \"7\":\n"
    "    device: 0\n"
    "    source: {file: '-', format: {dtype: float32, shape: [3, 5]}, rate: 29.97}\n"
    "    sink: {file: \"quote\\\"back\\\\slash \xC3\xA4 %H\", rotate: {most: 200GiB, every: 10m, size: 2048MiB, keep: 7d}}\n"
    "    record: {file: in-%S, when: boxes, after: 2s, size: 1024MiB}\n";

static const char *const canonical =
    "log:\n  level: warning\nlanes: 4\ndrain_timeout: 90s\nstatus:\n  socket: \"./s\"\n  http: \"127.0.0.1:9464\"\n  token: t\n"
    "gpu:\n  backend: cpu\n  device: 1\n  count: 4\n  timeout: 1500ms\n  faults: 5/min\n  standby: auto\n"
    "limits: {sessions_per_user: 3, readers_per_user: 32, memory_per_user: 1536MiB}\n"
    "realtime: {policy: rr, priority: 20, cpus: [2, 3, 65], lock: true}\n"
    "models:\n"
    "  plain:\n"
    "    file: /p.onnx\n"
    "    instances: 2\n"
    "    precision: tf32\n"
    "  person:\n"
    "    file: models/person.onnx\n"
    "    shape: {images: [1, 3, 640, 640], \"a b\": [2]}\n"
    "    instances: 3\n"
    "    memory: 2GiB\n"
    "    precision: float32\n"
    "    output: all\n"
    "    batch: {most: 16, wait: 2ms}\n"
    "pipelines:\n"
    "  cam0:\n"
    "    devices: [0, 2]\n"
    "    spread: frames\n"
    "    source:\n"
    "      socket: \"/run/a b.sock\"\n"
    "      protocol: raw\n"
    "      format: {pixels: gray, width: 640, height: 480}\n"
    "      clients: 2\n"
    "      timeout: 3s\n      expect: 5s\n"
    "      mode: \"0600\"\n"
    "      owner: 0\n"
    "      group: 5\n"
    "      allow: {users: [0, 1], groups: [2]}\n"
    "    slots: 4\n"
    "    completion: spin\n"
    "    spin_for: 200us\n"
    "    graph: auto\n"
    "    overload: drop-oldest\n"
    "    deadline: 50ms\n"
    "    priority: high\n"
    "    share: {percent: 30}\n"
    "    stages:\n"
    "      - affine: {scale: 2.5, offset: 0.001}\n"
    "      - sobel: {}\n"
    "      - normalize: {mean: [1, 2, 3]}\n"
    "      - convert: {to: gray}\n"
    "      - run: {file: lib/x.so, entry: main, settings: {gain: 1.5, \"a b\": [2, 3], mode: fast}}\n"
    "      - model: {name: person}\n"
    "      - model: {file: own.onnx, shape: {x: [1, 8]}}\n"
    "    sink:\n"
    "      reply: true\n"
    "      protocol: raw\n"
    "  \"7\":\n"
    "    device: 0\n"
    "    spread: sessions\n"
    "    source:\n"
    "      file: \"-\"\n"
    "      protocol: raw\n"
    "      format: {dtype: float32, shape: [3, 5]}\n"
    "      rate: 29.97\n"
    "      loop: false\n"
    "    slots: 2\n"
    "    completion: callback\n"
    "    spin_for: 200us\n"
    "    graph: auto\n"
    "    overload: block\n"
    "    priority: normal\n"
    "    stages: []\n"
    "    sink:\n"
    "      file: \"quote\\\"back\\\\slash \xC3\xA4 %H\"\n"
    "      protocol: raw\n"
    "      rotate: {every: 10min, size: 2GiB, keep: 168h, most: 200GiB, full: auto}\n"
    "    record:\n"
    "      file: \"in-%S\"\n"
    "      protocol: raw\n"
    "      when: boxes\n"
    "      before: 10s\n"
    "      after: 2s\n"
    "      memory: 256MiB\n"
    "      every: 10min\n"
    "      size: 1GiB\n"
    "      full: auto\n";

START_TEST(text_says_everything) {
  struct config *config = fixture_config(rich);
  ck_assert_str_eq(config->text, canonical);
  config_free(config);
}
END_TEST

START_TEST(text_reads_back_as_itself) {
  struct config *config = fixture_config(canonical);
  ck_assert_str_eq(config->text, canonical);
  config_free(config);
}
END_TEST

/* Names and paths that YAML would take for something else. */
START_TEST(awkward_words_read_back_as_themselves) {
  static const char *const words[] = {"true", "No",   "null", "~",  "1e3", "0x1F",         "-",  ".",  "...", "---",
                                      "y",    "a: b", "#x",   "@a", "&a",  "*a",           "!a", "%a", "{}",  "[]",
                                      ",",    "|",    ">",    "?",  "'",   "\xE2\x82\xAC", " a "};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    char text[512];
    snprintf(text, sizeof text, SOURCE("file: \"%s\", " FORMAT, "    sink: {socket: \"%s\"}\n"), words[i],
             strcmp(words[i], "-") == 0 ? "other" : words[i]);
    struct config *first = fixture_config(text);
    ck_assert_str_eq(first->pipelines[0].source.path, words[i]);
    struct config *second = fixture_config(first->text);
    ck_assert_str_eq(second->text, first->text);
    ck_assert_str_eq(second->pipelines[0].source.path, words[i]);
    config_free(first);
    config_free(second);
  }
}
END_TEST

START_TEST(equal_pipelines_have_equal_texts) {
  struct config *short_form = fixture_config(PIPELINE("    deadline: 1s\n    stages: [sobel]\n"));
  struct config *long_form = fixture_config("lanes: 3\n" SOURCE("protocol: raw, " FORMAT ", mode: '660', socket: in",
                                                                "    stages:\n      - sobel: {}\n    slots: 2\n"
                                                                "    deadline: 1000ms\n" SINK));
  struct config *other = fixture_config(PIPELINE("    deadline: 1s\n    stages: [sobel]\n    slots: 3\n"));
  ck_assert_str_eq(short_form->pipelines[0].text, long_form->pipelines[0].text);
  ck_assert_str_ne(short_form->pipelines[0].text, other->pipelines[0].text);
  config_free(short_form);
  config_free(long_form);
  config_free(other);
}
END_TEST

START_TEST(device_of_the_gpu_shows_in_the_pipeline) {
  struct config *first = fixture_config("gpu: {device: 0}\n" PIPELINE(""));
  struct config *second = fixture_config("gpu: {device: 1}\n" PIPELINE(""));
  ck_assert_str_ne(first->pipelines[0].text, second->pipelines[0].text);
  config_free(first);
  config_free(second);
}
END_TEST

/* Reads it, and if it is valid also what it prints. */
static bool survives(const char *text, size_t length) {
  struct reading reading = fixture_read_bytes(text, length);
  bool valid = reading.config != NULL;
  if (valid) {
    struct config *again = fixture_config(reading.config->text);
    ck_assert_str_eq(again->text, reading.config->text);
    config_free(again);
  } else {
    ck_assert_uint_gt(strlen(reading.report), 0);
  }
  fixture_end(&reading);
  return valid;
}

START_TEST(every_truncation_is_survived) {
  for (size_t length = 0; length <= strlen(rich); length++) {
    char *cut = malloc(length + 1); /* of the exact size, so that the sanitizer sees a byte too far */
    memcpy(cut, rich, length);
    survives(cut, length);
    free(cut);
  }
}
END_TEST

START_TEST(thousands_of_mutations_are_survived) {
  enum { ROUNDS = 6000 };
  static const char alphabet[] = "{}[]:,-#&*!|>'\"%@` \t\n\\x0a9~?.\xC3\xFF";
  unsigned random = 12345;
  unsigned valid = 0;
  size_t length = strlen(rich);
  char *mutant = malloc(length);
  for (int round = 0; round < ROUNDS; round++) {
    memcpy(mutant, rich, length);
    for (int change = 0; change <= round % 3; change++) {
      random = random * 1103515245 + 12345;
      size_t place = (random >> 8) % length;
      random = random * 1103515245 + 12345;
      mutant[place] = alphabet[(random >> 8) % (sizeof alphabet - 1)];
    }
    valid += survives(mutant, length) ? 1 : 0;
  }
  free(mutant);
  ck_assert_uint_gt(valid, 0);
  ck_assert_uint_lt(valid, ROUNDS);
}
END_TEST

Suite *text_suite(void);

Suite *text_suite(void) {
  Suite *suite = suite_create("text");
  TCase *canon = tcase_create("canonical");
  tcase_set_timeout(canon, 120);
  tcase_add_test(canon, text_says_everything);
  tcase_add_test(canon, text_reads_back_as_itself);
  tcase_add_test(canon, awkward_words_read_back_as_themselves);
  tcase_add_test(canon, equal_pipelines_have_equal_texts);
  tcase_add_test(canon, device_of_the_gpu_shows_in_the_pipeline);
  tcase_add_test(canon, every_truncation_is_survived);
  tcase_add_test(canon, thousands_of_mutations_are_survived);
  suite_add_tcase(suite, canon);
  return suite;
}
