#include "tests/gpu/run_stage_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_number(const struct stage_parameter *parameter, const char *text, double *number) {
  if (parameter->type == STAGE_CHOICE) {
    for (unsigned i = 0; parameter->choices[i]; i++) {
      if (strcmp(parameter->choices[i], text) == 0) {
        *number = i;
        return true;
      }
    }
    return false;
  }
  char *end = NULL;
  *number = strtod(text, &end);
  return end != text && *end == '\0' && *number >= parameter->minimum && *number <= parameter->maximum;
}

static bool parse_value(const struct stage_parameter *parameter, char *text, struct stage_value *value) {
  char *rest = NULL;
  *value = (struct stage_value){.given = true};
  for (char *part = strtok_r(text, ":", &rest); part; part = strtok_r(NULL, ":", &rest)) {
    if (value->count == STAGE_MAX_NUMBERS || !parse_number(parameter, part, &value->numbers[value->count++])) {
      return false;
    }
  }
  return value->count > 0;
}

static bool parse_setting(char *text, struct gpu_stage_request *request) {
  char *equals = strchr(text, '=');
  for (unsigned i = 0; equals && i < request->stage->parameter_count; i++) {
    const struct stage_parameter *parameter = &request->stage->parameters[i];
    if (strlen(parameter->name) == (size_t)(equals - text) && strncmp(parameter->name, text, (size_t)(equals - text)) == 0) {
      return parse_value(parameter, equals + 1, &request->values[i]);
    }
  }
  return false;
}

static bool all_required(const struct gpu_stage_request *request) {
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    if (request->stage->parameters[i].required && !request->values[i].given) {
      return false;
    }
  }
  return true;
}

/* "NAME" or "NAME: KEY=VALUE,KEY=VALUE"; the text is cut up. */
static bool parse_stage(char *text, struct gpu_stage_request *request) {
  char *colon = strchr(text, ':');
  if (colon) {
    *colon++ = '\0';
  }
  request->stage = stage_about_find(text);
  if (!request->stage) {
    return false;
  }
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    request->values[i] = (struct stage_value){.count = 1, .numbers = {request->stage->parameters[i].fallback}};
  }
  char *rest = NULL;
  for (char *part = colon ? strtok_r(colon, ", ", &rest) : NULL; part; part = strtok_r(NULL, ", ", &rest)) {
    if (!parse_setting(part, request)) {
      return false;
    }
  }
  return all_required(request);
}

bool arguments_parse_format(const char *name, const char *size, struct frame_format *format) {
  unsigned width = 0;
  unsigned height = 0;
  if (sscanf(size, "%ux%u", &width, &height) != 2) {
    return false;
  }
  for (int pixels = PIXELS_NONE + 1; pixels < PIXELS_COUNT; pixels++) {
    if (strcmp(pixel_format_names[pixels], name) == 0) {
      *format = format_image((enum pixel_format)pixels, width, height);
      return true;
    }
  }
  return false;
}

static bool parse_option(struct options *options, const char *name, const char *value) {
  if (strcmp(name, "--repeat") == 0) {
    options->repeat = strtol(value, NULL, 10);
    return options->repeat > 0;
  }
  if (strcmp(name, "--all") == 0) {
    options->all = value;
    return true;
  }
  options->backend = strcmp(value, "cuda") == 0 ? GPU_BACKEND_CUDA : GPU_BACKEND_CPU;
  return strcmp(name, "--backend") == 0 && (strcmp(value, "cuda") == 0 || strcmp(value, "cpu") == 0);
}

bool arguments_parse_stages(struct options *options, int count, char **stages) {
  for (options->count = 0; count > 0; count--, stages++, options->count++) {
    if (options->count == GPU_MAX_STAGES || !parse_stage(*stages, &options->requests[options->count])) {
      fprintf(stderr, "run-stage: stage %u (%s) is unknown, or one of its settings is unknown, missing or out of bounds\n",
              options->count + 1, *stages);
      return false;
    }
  }
  return true;
}

bool arguments_parse(struct options *options, int argc, char **argv) {
  *options = (struct options){.backend = GPU_BACKEND_CPU};
  int i = 1;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    if (!parse_option(options, argv[i], argv[i + 1])) {
      return false;
    }
  }
  if (i + 1 == argc && strcmp(argv[i], "--jobs") == 0) {
    options->jobs = true;
    return true;
  }
  if (options->all) {
    return i == argc;
  }
  return i + 1 < argc && arguments_parse_format(argv[i], argv[i + 1], &options->format) &&
         arguments_parse_stages(options, argc - i - 2, argv + i + 2);
}

bool arguments_parse_job(struct options *options, char *line) {
  char *arguments[2 + GPU_MAX_STAGES];
  int count = 0;
  char *rest = NULL;
  for (char *part = strtok_r(line, "\t\n", &rest); part; part = strtok_r(NULL, "\t\n", &rest)) {
    if (count == 2 + GPU_MAX_STAGES) {
      return false;
    }
    arguments[count++] = part;
  }
  return count >= 2 && arguments_parse_format(arguments[0], arguments[1], &options->format) &&
         arguments_parse_stages(options, count - 2, arguments + 2);
}
