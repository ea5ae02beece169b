/* The list of stages, and the parameters of one of them. */
#include <stdio.h>
#include <string.h>

#include "daemon/server/try.h"
#include "gpu/stage.h"

/* -- one ---------------------------------------------------------------------------------------------------------- */

static void print_parameter(const char *name, const char *takes, const char *help) {
  printf("  %-20s %s%s%s\n", name, takes, *takes && *help ? ": " : "", help);
}

static void print_stage(const struct stage_descriptor *stage) {
  printf("%s\n  %s\n\n", stage->name, stage->help);
  for (unsigned i = 0; i < stage->parameter_count; i++) {
    print_parameter(stage->parameters[i].name, stage->parameters[i].required ? "needed" : "", stage->parameters[i].help);
  }
}

static enum exit_status print_one(const char *name) {
  const struct stage_descriptor *stage = stage_find(name);
  if (!stage) {
    fprintf(stderr, "framed: there is no stage '%s'\n  `framectl stages` lists them\n", name);
    return EXIT_STATUS_USAGE;
  }
  print_stage(stage);
  return EXIT_STATUS_OK;
}

/* -- all ---------------------------------------------------------------------------------------------------------- */

static enum exit_status print_all(void) {
  for (const struct stage_descriptor *const *stage = stage_descriptors; *stage; stage++) {
    printf("  %-20s %s\n", (*stage)->name, (*stage)->help);
  }
  return EXIT_STATUS_OK;
}

enum exit_status try_print_stages(const char *name) { return name ? print_one(name) : print_all(); }
