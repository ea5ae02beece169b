#include "tools/framectl/status/camera.h"

#include <string.h>

#include "tools/framectl/common/text.h"

static const char *word(const json_t *camera, const char *key) {
  const char *text = json_string_value(json_object_get(camera, key));
  return text ? text : "";
}

static long long count(const json_t *camera, const char *key) { return json_integer_value(json_object_get(camera, key)); }

static double number(const json_t *camera, const char *key) { return json_number_value(json_object_get(camera, key)); }

/* "h264 2560x1440, 25 a second, 4.0 Mbit/s, decoder cpu, times by rtcp" */
static void print_stream(FILE *out, const json_t *camera) {
  fprintf(out, ": %s %lldx%lld, %.3g a second, %.1f Mbit/s, decoder %s", word(camera, "codec"), count(camera, "width"),
          count(camera, "height"), number(camera, "rate"), number(camera, "bitrate") / 1e6, word(camera, "decoder"));
  fprintf(out, word(camera, "time")[0] ? ", times by %s" : "%s", word(camera, "time"));
}

void camera_print(FILE *out, const char *before, const json_t *pipeline, bool troubles, bool colour) {
  const json_t *camera = json_object_get(pipeline, "camera");
  bool is_well = !word(camera, "token")[0];
  enum text_colour tone = is_well ? COLOUR_NONE : COLOUR_RED;
  if (!json_is_object(camera) || (troubles && is_well)) {
    return;
  }
  fprintf(out, "%scamera    ", before);
  text_colour_begin(out, tone, colour);
  fputs(word(camera, "state"), out);
  if (!is_well) {
    fprintf(out, ": %s (%s)", word(camera, "text"), word(camera, "token"));
  }
  text_colour_end(out, tone, colour);
  if (strcmp(word(camera, "state"), "running") == 0) {
    print_stream(out, camera);
  } else if (number(camera, "retry_s") > 0) {
    fprintf(out, "; tried again within %.3g s", number(camera, "retry_s"));
  }
  fprintf(out, "; %lld packets lost, connected again %lld times\n", count(camera, "lost"), count(camera, "reconnects"));
}
