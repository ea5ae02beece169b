/* Sources that are URLs: what they mean for their pipeline, which ones are refused, and that no report shows a password. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/config/fixture.h"

static const char *const pixels[] = {"gray", "yuyv422", "nv12", NULL};
static const char *const dtypes[] = {"uint8", NULL};
static const struct config_vocabulary vocabulary = {.pixels = pixels, .dtypes = dtypes};
static const struct config_hooks hooks = {.vocabulary = &vocabulary};

static struct config_errors *errors;

static struct config *read_source(const char *source, const char *rest) {
  char text[4096];
  snprintf(text, sizeof text, "pipelines:\n  yard:\n    source: {%s}\n    sink: {socket: out}\n%s", source, rest);
  config_errors_free(errors);
  errors = config_errors_new();
  return config_parse("t.yaml", text, strlen(text), &hooks, errors);
}

static void accepts(const char *source, const char *rest, void (*look)(const struct config_pipeline *pipeline)) {
  struct config *config = read_source(source, rest);
  ck_assert_msg(config != NULL, "%s", config_errors_text(errors));
  look(&config->pipelines[0]);
  struct config *again = config_parse("again.yaml", config->text, strlen(config->text), &hooks, errors);
  ck_assert_msg(again != NULL, "%s", config_errors_text(errors));
  ck_assert_str_eq(config->text, again->text);
  config_free(again);
  config_free(config);
}

static void refuses(const char *source, const char *rest, const char *words) {
  struct config *config = read_source(source, rest);
  ck_assert_msg(!config, "%s %s", source, rest);
  ck_assert_msg(strstr(config_errors_text(errors), words) != NULL, "%s\ndoes not say: %s", config_errors_text(errors), words);
}

static void has_defaults(const struct config_pipeline *pipeline) {
  const struct config_source *source = &pipeline->source;
  ck_assert_int_eq(source->endpoint, CONFIG_CAMERA);
  ck_assert_str_eq(source->path, "rtsp://10.0.0.17/main");
  ck_assert_str_eq(source->credentials, "yard");
  ck_assert_int_eq(source->transport, CONFIG_TRANSPORT_TCP);
  ck_assert_int_eq(source->protocol, CONFIG_PROTOCOL_NATIVE);
  ck_assert_uint_eq(source->format.pixels, 2);
  ck_assert_uint_eq(source->format.width, 1920);
  ck_assert_uint_eq(source->format.height, 1080);
  ck_assert_uint_eq(source->clients, 1);
  ck_assert_int_eq(pipeline->overload, CONFIG_OVERLOAD_DROP_OLDEST);
  ck_assert_uint_eq(pipeline->slots, 4);
}

static void has_what_it_says(const struct config_pipeline *pipeline) {
  ck_assert_int_eq(pipeline->source.transport, CONFIG_TRANSPORT_UDP);
  ck_assert_uint_eq(pipeline->source.format.pixels, 0);
  ck_assert_uint_eq(pipeline->source.format.width, 64);
  ck_assert_int_eq(pipeline->overload, CONFIG_OVERLOAD_DROP_NEWEST);
  ck_assert_uint_eq(pipeline->slots, 2);
}

static void waits(const struct config_pipeline *pipeline) { ck_assert_int_eq(pipeline->overload, CONFIG_OVERLOAD_BLOCK); }

static void is_a_camera(const struct config_pipeline *pipeline) { ck_assert_int_eq(pipeline->source.endpoint, CONFIG_CAMERA); }

START_TEST(a_url_is_enough) {
  accepts("url: \"rtsp://10.0.0.17/main\", credentials: yard", "", has_defaults);
  accepts("url: \"rtsp://c/1\", transport: udp, format: {pixels: gray, width: 64, height: 48}", "    overload: drop-newest\n",
          has_what_it_says);
  accepts("url: \"file:/srv/a b.mp4\"", "", waits);
}
END_TEST

START_TEST(each_scheme_is_known) {
  static const char *const urls[] = {"rtsps://cam.example:322/a?b=c@d",
                                     "http://[2001:db8::1]:8080/mjpeg",
                                     "https://cam",
                                     "srt://10.0.0.17:9000?mode=caller",
                                     "file:///srv/yard.mp4",
                                     "v4l2:/dev/video0"};
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
    char source[256];
    snprintf(source, sizeof source, "url: \"%s\"", urls[i]);
    accepts(source, "", is_a_camera);
  }
}
END_TEST

static const struct {
  const char *source, *rest, *words;
} mistakes[] = {
    {"url: \"ftp://cam/1\"", "", "has a scheme that framed does not know"},
    {"url: \"/dev/video0\"", "", "has a scheme that framed does not know"},
    {"url: \"rtsp:/cam/1\"", "", "has no // behind its scheme"},
    {"url: \"rtsp:///main\"", "", "names no host"},
    {"url: \"rtsp://:554/main\"", "", "names no host"},
    {"url: \"rtsp://cam:port/main\"", "", "has a port that is no number"},
    {"url: \"rtsp://cam:70000/main\"", "", "has a port that is no number"},
    {"url: \"rtsp://[::1/main\"", "", "names no host"},
    {"url: \"rtsp://cam/a b\"", "", "write %20 for a space"},
    {"url: \"file:yard.mp4\"", "", "has no absolute path"},
    {"url: 5", "", "'url' must be a text"},
    {"url: \"rtsp://cam/1\", socket: in", "", "exclude each other"},
    {"url: \"rtsp://cam/1\", protocol: raw", "", "'protocol' goes only with 'socket' or 'file'"},
    {"url: \"rtsp://cam/1\", clients: 2", "", "'clients' goes only with 'socket'"},
    {"socket: in, credentials: yard, format: {pixels: gray, width: 4, height: 2}", "", "'credentials' goes only with 'url'"},
    {"url: \"rtsp://cam/1\", format: {pixels: yuyv422, width: 4, height: 2}", "", "are given as nv12, rgb24"},
    {"url: \"rtsp://cam/1\", format: {dtype: uint8, shape: [4]}", "", "are given as nv12, rgb24"},
    {"url: \"rtsp://cam/1\", format: {pixels: nv12, width: 5, height: 2}", "", "an even width and height"},
    {"url: \"rtsp://cam/1\", format: {pixels: gray, width: 16385, height: 2}", "", "at most 16384 x 16384"},
    {"url: \"rtsp://cam/1\", credentials: ../passwd", "", "'credentials' is no name of a file"},
    {"url: \"rtsp://cam/1\", credentials: .", "", "'credentials' is no name of a file"},
    {"url: \"v4l2:/dev/video0\", credentials: yard", "", "'credentials' are for URLs of the network"},
    {"url: \"http://cam/1\", transport: udp", "", "is for rtsp:// only"},
    {"url: \"rtsp://cam/1\"", "    overload: block\n", "a camera does not wait for its pipeline"},
};

START_TEST(mistake_is_reported) { refuses(mistakes[_i].source, mistakes[_i].rest, mistakes[_i].words); }
END_TEST

START_TEST(no_report_shows_a_password) {
  static const char *const sources[] = {
      "url: \"rtsp://admin:geheim@10.0.0.17/main\"", "url: \"rtsp://admin:ge/heim@10.0.0.17/main\"",
      "url: rtsp://admin:geheim@10.0.0.17/main, unknown: key", "socket: rtsp://admin:geheim@10.0.0.17/main",
      "adress: 'rtsp://admin:geheim@10.0.0.17/main"};
  for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
    ck_assert(!read_source(sources[i], ""));
    ck_assert_msg(!strstr(config_errors_text(errors), "heim"), "%s", config_errors_text(errors));
  }
  refuses(sources[0], "", "write credentials: NAME");
  refuses(sources[0], "", "rtsp://************@10.0.0.17/main");
}
END_TEST

static void clear(void) { errors = config_errors_free(errors); }

Suite *camera_suite(void);

Suite *camera_suite(void) {
  Suite *suite = suite_create("camera");
  TCase *urls = tcase_create("urls");
  tcase_add_checked_fixture(urls, NULL, clear);
  tcase_add_test(urls, a_url_is_enough);
  tcase_add_test(urls, each_scheme_is_known);
  tcase_add_loop_test(urls, mistake_is_reported, 0, sizeof mistakes / sizeof mistakes[0]);
  tcase_add_test(urls, no_report_shows_a_password);
  suite_add_tcase(suite, urls);
  return suite;
}
