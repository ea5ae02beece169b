#include "tools/framebench/stages/stage_list.h"

#include "tools/framebench/common/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct stage_entry stage_list[] = {
    {PIXELS_GRAY, "affine: scale=2,offset=1"},
    {PIXELS_GRAYF32LE, "affine: scale=2,offset=1"},
    {PIXELS_YUV420P, "convert: to=rgb24"},
    {PIXELS_NV12, "convert: to=rgb24"},
    {PIXELS_YUYV422, "convert: to=rgb24"},
    {PIXELS_RGB24, "convert: to=bgr24"},
    {PIXELS_RGB24, "convert: to=gray"},
    {PIXELS_RGB24, "convert: to=yuv420p"},
    {PIXELS_YUV420P, "convert: to=gray"},
    {PIXELS_YUV420P, "convert: to=nv12"},
    {PIXELS_GRAY, "convert: to=rgb24"},
    {PIXELS_GRAY, "convert: to=grayf32le"},
    {PIXELS_GRAY, "resize: width=full,height=full"},
    {PIXELS_GRAY, "resize: width=three_quarters,height=three_quarters"},
    {PIXELS_GRAY, "resize: width=half,height=half"},
    {PIXELS_GRAY, "resize: width=half,height=half,filter=area"},
    {PIXELS_GRAY, "resize: width=half,height=half,filter=nearest"},
    {PIXELS_RGB24, "resize: width=half,height=half"},
    {PIXELS_RGB24, "resize: width=three_quarters,height=three_quarters"},
    {PIXELS_YUV420P, "resize: width=half,height=half"},
    {PIXELS_GRAYF32LE, "resize: width=three_quarters,height=three_quarters"},
    {PIXELS_GRAYF32LE, "resize: width=three_quarters,height=three_quarters,filter=area"},
    {PIXELS_GRAYF32LE, "resize: width=half,height=half,filter=area"},
    {PIXELS_RGB24, "normalize"},
    {PIXELS_GRAY, "blur: sigma=1"},
    {PIXELS_GRAY, "blur: sigma=2"},
    {PIXELS_GRAY, "blur: sigma=10"},
    {PIXELS_RGB24, "blur: sigma=2"},
    {PIXELS_GRAY, "sobel"},
    {PIXELS_GRAYF32LE, "sobel"},
    {PIXELS_GRAY, "threshold"},
    {PIXELS_GRAY, "motion"},
    {PIXELS_GRAY, "motion: output=boxes"},
    {PIXELS_GRAY, "stats"},
    {PIXELS_GRAY, "work: rounds=1"},
};

const unsigned stage_list_length = sizeof stage_list / sizeof stage_list[0];

bool stage_list_computes(const struct stage_entry *entry) { return strncmp(entry->stage, "work", 4) == 0; }

/* A choice's index, a number, or a share of a side. */
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

/* "KEY=VALUE" */
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
  request->stage = stage_find(copy);
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
  struct frame_format format = format_image(entry->pixels, width, height);
  if (!parse(entry->stage, &format, &request)) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "this is no stage with its settings: %s", entry->stage);
    return NULL;
  }
  struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, &error);
  if (!chain) {
    options_gpu_problem(&error, problem);
  }
  return chain;
}
