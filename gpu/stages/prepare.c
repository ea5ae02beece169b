/* Helpers for the prepare() functions of all stages; see prepare.h. */
#include "gpu/stages/prepare.h"

#include <stdio.h>

bool stage_fill_sizes(struct stage_plan *plan, char problem[STAGE_TEXT]) {
  char text[FORMAT_TEXT];
  if (!format_bytes(&plan->input, &plan->input_bytes)) {
    snprintf(problem, STAGE_TEXT, "%s is not a size that a frame can have", format_describe(&plan->input, text));
    return false;
  }
  if (!format_bytes(&plan->output, &plan->output_bytes)) {
    snprintf(problem, STAGE_TEXT, "%s would give %s, which is not a size that a frame can have", plan->stage->about->name,
             format_describe(&plan->output, text));
    return false;
  }
  return true;
}

bool stage_keep_format(struct stage_plan *plan, char problem[STAGE_TEXT]) {
  plan->output = plan->input;
  plan->output.meaning = MEANING_NONE; /* its numbers are others now */
  plan->output.parts = NULL;
  return stage_fill_sizes(plan, problem);
}

struct kept_file *stage_file(struct stage_plan *plan) {
  unsigned used = 0;
  while (plan->files[used].path && used + 1 < STAGE_MAX_FILES) {
    used++;
  }
  return &plan->files[used];
}

bool stage_refuse(const struct stage_plan *plan, char problem[STAGE_TEXT], const char *what, const char *remedy) {
  char text[FORMAT_TEXT];
  snprintf(problem, STAGE_TEXT, "%s takes %s, not %s%s%s", plan->stage->about->name, what, format_describe(&plan->input, text),
           remedy ? "; " : "", remedy ? remedy : "");
  return false;
}

unsigned stage_channels(const struct frame_format *format) {
  switch (format->pixels) {
  case PIXELS_GRAY:
  case PIXELS_GRAYF32LE:
    return 1;
  case PIXELS_RGB24:
  case PIXELS_BGR24:
    return 3;
  case PIXELS_NONE:
  case PIXELS_NV12:
  case PIXELS_YUV420P:
  case PIXELS_YUYV422:
  case PIXELS_COUNT:
    break;
  }
  return 0;
}

double stage_channel_number(const struct stage_value *value, unsigned index) {
  return value->numbers[index < value->count ? index : 0];
}

bool stage_check_channels(const struct stage_value *value, unsigned channels, const char *name, char problem[STAGE_TEXT]) {
  if (value->count <= 1 || value->count == channels) {
    return true;
  }
  snprintf(problem, STAGE_TEXT, "`%s` has %u numbers for a format of %u channel%s; give one number, or one for each channel",
           name, value->count, channels, channels == 1 ? "" : "s");
  return false;
}
