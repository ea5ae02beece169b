#include "tools/framebench/stages/stage_list.h"

#include "tools/framebench/common/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct stage_entry stage_list[] = {
    {.pixels = PIXELS_GRAY, .stage = "affine: scale=2,offset=1"},
    {.pixels = PIXELS_GRAYF32LE, .stage = "affine: scale=2,offset=1"},
    {.pixels = PIXELS_YUV420P, .stage = "convert: to=rgb24"},
    {.pixels = PIXELS_NV12, .stage = "convert: to=rgb24"},
    {.pixels = PIXELS_YUYV422, .stage = "convert: to=rgb24"},
    {.pixels = PIXELS_RGB24, .stage = "convert: to=bgr24"},
    {.pixels = PIXELS_RGB24, .stage = "convert: to=gray"},
    {.pixels = PIXELS_RGB24, .stage = "convert: to=yuv420p"},
    {.pixels = PIXELS_YUV420P, .stage = "convert: to=gray"},
    {.pixels = PIXELS_YUV420P, .stage = "convert: to=nv12"},
    {.pixels = PIXELS_GRAY, .stage = "convert: to=rgb24"},
    {.pixels = PIXELS_GRAY, .stage = "convert: to=grayf32le"},
    {.pixels = PIXELS_GRAY, .stage = "resize: width=full,height=full"},
    {.pixels = PIXELS_GRAY, .stage = "resize: width=three_quarters,height=three_quarters"},
    {.pixels = PIXELS_GRAY, .stage = "resize: width=half,height=half"},
    {.pixels = PIXELS_GRAY, .stage = "resize: width=half,height=half,filter=area"},
    {.pixels = PIXELS_GRAY, .stage = "resize: width=half,height=half,filter=nearest"},
    {.pixels = PIXELS_RGB24, .stage = "resize: width=half,height=half"},
    {.pixels = PIXELS_RGB24, .stage = "resize: width=three_quarters,height=three_quarters"},
    {.pixels = PIXELS_YUV420P, .stage = "resize: width=half,height=half"},
    {.pixels = PIXELS_GRAYF32LE, .stage = "resize: width=three_quarters,height=three_quarters"},
    {.pixels = PIXELS_GRAYF32LE, .stage = "resize: width=three_quarters,height=three_quarters,filter=area"},
    {.pixels = PIXELS_GRAYF32LE, .stage = "resize: width=half,height=half,filter=area"},
    {.pixels = PIXELS_RGB24, .stage = "normalize"},
    {.pixels = PIXELS_GRAY, .stage = "blur: sigma=1"},
    {.pixels = PIXELS_GRAY, .stage = "blur: sigma=2"},
    {.pixels = PIXELS_GRAY, .stage = "blur: sigma=10"},
    {.pixels = PIXELS_RGB24, .stage = "blur: sigma=2"},
    {.pixels = PIXELS_GRAY, .stage = "sobel"},
    {.pixels = PIXELS_GRAYF32LE, .stage = "sobel"},
    {.pixels = PIXELS_GRAY, .stage = "threshold"},
    {.pixels = PIXELS_GRAY, .stage = "motion"},
    {.pixels = PIXELS_GRAY, .stage = "motion: output=boxes"},
    {.pixels = PIXELS_GRAY, .stage = "stats"},
    {.stage = "top: softmax=true", .shape = {1, 1000, 1}},
    {.stage = "detect: layout=yolo8", .shape = {1, 84, 8400}},
    {.stage = "detect: layout=yolo5", .shape = {1, 8400, 85}},
    {.stage = "mask", .shape = {3, 0, 0}},
    {.stage = "image", .shape = {3, 0, 0}},
    {.pixels = PIXELS_GRAY, .stage = "work: rounds=1"},
};

const unsigned stage_list_length = sizeof stage_list / sizeof stage_list[0];

bool stage_list_computes(const struct stage_entry *entry) {
  return strncmp(entry->stage, "work", 4) == 0 || (entry->pixels == PIXELS_NONE && entry->shape[2] != 0);
}

const char *stage_list_input(const struct stage_entry *entry) {
  return entry->pixels == PIXELS_NONE ? element_type_names[ELEMENT_FLOAT32] : pixel_format_names[entry->pixels];
}

static struct frame_format input_of(const struct stage_entry *entry, uint32_t width, uint32_t height) {
  if (entry->pixels != PIXELS_NONE) {
    return format_image(entry->pixels, width, height);
  }
  const uint64_t *shape = entry->shape;
  return format_tensor(ELEMENT_FLOAT32, (uint64_t[]){shape[0], shape[1] ? shape[1] : height, shape[2] ? shape[2] : width}, 3);
}

/* The value of a candidate at `column`: position and size, objectness if the layout has it, then the classes' scores. */
static float detector_says(unsigned candidate, unsigned column, unsigned first_class) {
  unsigned object = candidate / 10 % 40;
  bool found = candidate % 10 == 0;
  unsigned at = object % 8, line = object / 8;
  const float box[] = {(float)(at * 75 + 40 + candidate % 7), (float)(line * 110 + 50 + candidate % 5), 60, 90};
  if (column < 4) {
    return box[column];
  }
  if (column < first_class) {
    return 0.95F;
  }
  return found && column == first_class + object ? 0.4F + (float)(candidate % 64) / 128 : 0.01F;
}

bool stage_list_fill(const struct stage_plan *plan, float *frame) {
  if (strcmp(plan->stage->about->name, "detect") != 0) {
    return false;
  }
  const uint64_t *sides = plan->input.shape + 1;
  bool by_column = sides[0] < sides[1]; /* the layout of yolo8, without objectness */
  unsigned candidates = (unsigned)sides[by_column ? 1 : 0], columns = (unsigned)sides[by_column ? 0 : 1];
  for (unsigned candidate = 0; candidate < candidates; candidate++) {
    for (unsigned column = 0; column < columns; column++) {
      size_t at = by_column ? (size_t)column * candidates + candidate : (size_t)candidate * columns + column;
      frame[at] = detector_says(candidate, column, by_column ? 4 : 5);
    }
  }
  return true;
}

/* Parses a choice's index, a number, or a fraction of a side. */
static bool parse_value(const struct stage_parameter *parameter, const char *text, double side, double *value) {
  static const struct {
    const char *name;
    double factor;
  } shares[] = {{"full", 1}, {"three_quarters", 0.75}, {"half", 0.5}, {"double", 2}};
  for (unsigned i = 0; parameter->type == STAGE_CHOICE && parameter->choices[i]; i++) {
    if (strcmp(parameter->choices[i], text) == 0) {
      *value = i;
      return true;
    }
  }
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    if (strcmp(shares[i].name, text) == 0) {
      *value = side * shares[i].factor;
      return true;
    }
  }
  char *end = NULL;
  *value = strtod(text, &end);
  return end != text && *end == '\0' && parameter->type != STAGE_CHOICE;
}

/* Parses "KEY=VALUE". */
static bool parse_setting(struct gpu_stage_request *request, char *text, const struct frame_format *format) {
  char *equals = strchr(text, '=');
  if (!equals) {
    return false;
  }
  *equals = '\0';
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    const struct stage_parameter *parameter = &request->stage->parameters[i];
    if (strcmp(parameter->name, text) == 0) {
      double side = strcmp(text, "width") == 0 ? format->width : format->height;
      request->values[i] = (struct stage_value){.given = true, .count = 1};
      return parse_value(parameter, equals + 1, side, &request->values[i].numbers[0]);
    }
  }
  return false;
}

static bool parse(const char *text, const struct frame_format *format, struct gpu_stage_request *request) {
  char copy[STAGE_TEXT], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  char *settings = strchr(copy, ':');
  if (settings) {
    *settings++ = '\0';
  }
  request->stage = stage_about_find(copy);
  for (unsigned i = 0; request->stage && i < request->stage->parameter_count; i++) {
    request->values[i] = (struct stage_value){.count = 1, .numbers = {request->stage->parameters[i].fallback}};
  }
  for (char *part = settings && request->stage ? strtok_r(settings, ", ", &rest) : NULL; part;
       part = strtok_r(NULL, ", ", &rest)) {
    if (!parse_setting(request, part, format)) {
      return false;
    }
  }
  return request->stage;
}

struct gpu_chain *stage_list_chain(const struct stage_entry *entry, uint32_t width, uint32_t height, struct problem *problem) {
  struct gpu_error error;
  struct gpu_stage_request request = {0};
  struct frame_format format = input_of(entry, width, height);
  if (!parse(entry->stage, &format, &request)) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "this is not a stage with settings: %s", entry->stage);
    return NULL;
  }
  struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, &error);
  if (!chain) {
    options_gpu_problem(&error, problem);
  }
  return chain;
}
