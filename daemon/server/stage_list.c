/* The list of stages, and the parameters of one of them. */
#include <stdio.h>
#include <string.h>

#include "config/units.h"
#include "daemon/server/try.h"
#include "gpu/record/stage_about.h"

/* -- one ---------------------------------------------------------------------------------------------------------- */

/* The parameter's name and what it takes, and below that what it is for. */
static void print_parameter(const char *name, const char *takes, const char *help) {
  printf("  %-20s %s\n", name, takes);
  if (*help) {
    printf("  %-20s %s\n", "", help);
  }
}

/* "one of: a, b" */
static void describe_choice(const struct stage_parameter *parameter, char takes[STAGE_TEXT]) {
  int used = snprintf(takes, STAGE_TEXT, "one of: ");
  for (const char *const *choice = parameter->choices; *choice && used < STAGE_TEXT; choice++) {
    used += snprintf(takes + used, (size_t)(STAGE_TEXT - used), "%s%s", *choice, choice[1] ? ", " : "");
  }
}

/* What a parameter takes, without its default; whether it can have one that a text can show. */
static bool describe_type(const struct stage_parameter *parameter, char takes[STAGE_TEXT]) {
  static const char *const kinds[] = {[STAGE_WORD] = "a text",
                                      [STAGE_FILE] = "a path; a relative one begins at the folder of the configuration file",
                                      [STAGE_SETTINGS] = "a mapping of names to numbers, lists of numbers or texts"};
  char least[UNITS_TEXT], most[UNITS_TEXT];
  switch (parameter->type) {
  case STAGE_CHOICE:
    describe_choice(parameter, takes);
    return true;
  case STAGE_NUMBER:
  case STAGE_INTEGER:
  case STAGE_NUMBERS:
    snprintf(takes, STAGE_TEXT, "%s %s to %s%s", parameter->type == STAGE_INTEGER ? "whole number" : "number",
             units_describe_number(parameter->minimum, least), units_describe_number(parameter->maximum, most),
             parameter->type == STAGE_NUMBERS ? ", or a list of such numbers" : "");
    return true;
  default:
    snprintf(takes, STAGE_TEXT, "%s", kinds[parameter->type]);
    return false;
  }
}

static void print_stage_parameter(const struct stage_parameter *parameter) {
  char takes[STAGE_TEXT], number[UNITS_TEXT];
  bool has_default = describe_type(parameter, takes);
  size_t used = strlen(takes);
  if (parameter->required) {
    snprintf(takes + used, STAGE_TEXT - used, "; required");
  } else if (has_default) {
    snprintf(takes + used, STAGE_TEXT - used, "; default: %s",
             parameter->type == STAGE_CHOICE ? parameter->choices[(size_t)parameter->fallback]
                                             : units_describe_number(parameter->fallback, number));
  }
  print_parameter(parameter->name, takes, parameter->help);
}

static void print_stage(const struct stage_about *stage) {
  printf("%s\n  %s\n\n", stage->name, stage->help);
  for (unsigned i = 0; i < stage->parameter_count; i++) {
    print_stage_parameter(&stage->parameters[i]);
  }
}

static enum exit_status print_one(const char *name) {
  const struct stage_about *stage = stage_about_find(name);
  if (!stage) {
    fprintf(stderr, "framed: there is no stage '%s'\n  `framectl stages` lists them\n", name);
    return EXIT_STATUS_USAGE;
  }
  print_stage(stage);
  return EXIT_STATUS_OK;
}

/* -- all ---------------------------------------------------------------------------------------------------------- */

static enum exit_status print_all(void) {
  for (const struct stage_about *const *stage = stage_abouts; *stage; stage++) {
    printf("  %-20s %s\n", (*stage)->name, (*stage)->help);
  }
  return EXIT_STATUS_OK;
}

enum exit_status try_print_stages(const char *name) { return name ? print_one(name) : print_all(); }
