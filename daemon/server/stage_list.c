/*
 * The list of stages, and what one of them takes. Filters of frei0r are other people's code, of which some end their process as
 * soon as they are opened: each is opened in a process of its own.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/server/try.h"
#include "gpu/stages/frei0r/frei0r.h"

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

static void print_filter(const char *name, const struct frei0r_plugin *plugin) {
  static const char *const takes[] = {"0 or 1", "0 to 1", "[red, green, blue]", "[x, y]", "a text"};
  printf("frei0r: {name: %s}\n  %s\n\n", name, plugin->info.explanation ? plugin->info.explanation : "");
  for (int i = 0; i < plugin->info.parameters; i++) {
    struct frei0r_parameter parameter = {0};
    plugin->parameter_info(&parameter, i);
    bool known = parameter.kind >= FREI0R_BOOL && parameter.kind <= FREI0R_STRING;
    print_parameter(parameter.name ? parameter.name : "", known ? takes[parameter.kind] : "",
                    parameter.explanation ? parameter.explanation : "");
  }
}

static enum exit_status print_one(const char *name) {
  const struct stage_descriptor *stage = stage_find(name);
  struct frei0r_plugin plugin;
  char problem[STAGE_TEXT];
  const char *remedy = "";
  if (stage) {
    print_stage(stage);
  } else if (frei0r_open(&plugin, name, NULL, problem, &remedy)) {
    print_filter(name, &plugin);
  } else {
    fprintf(stderr, "framed: there is no stage '%s', and %s\n  %s\n", name, problem, remedy);
    return EXIT_STATUS_USAGE;
  }
  return EXIT_STATUS_OK;
}

/* -- all ---------------------------------------------------------------------------------------------------------- */

static void print_if_filter(const char *name) {
  struct frei0r_plugin plugin;
  char problem[STAGE_TEXT];
  const char *remedy;
  if (frei0r_open(&plugin, name, NULL, problem, &remedy)) {
    printf("  %-20s %s\n", name, plugin.info.explanation ? plugin.info.explanation : "");
  }
  fflush(stdout);
  _exit(EXIT_STATUS_OK);
}

static void list_filter(const char *name, void *context) {
  bool *first = context;
  int status;
  if (*first) {
    puts("\nfrei0r: {name: ...} takes these filters, on the CPU backend:\n");
  }
  *first = false;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    print_if_filter(name);
  }
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    printf("  %-20s (cannot be opened)\n", name);
  }
}

static enum exit_status print_all(void) {
  bool first = true;
  for (const struct stage_descriptor *const *stage = stage_descriptors; *stage; stage++) {
    printf("  %-20s %s\n", (*stage)->name, (*stage)->help);
  }
  frei0r_list(list_filter, &first);
  if (first) {
    puts("\nNo filters of frei0r are installed: apt install frei0r-plugins.");
  }
  return EXIT_STATUS_OK;
}

enum exit_status try_print_stages(const char *name) { return name ? print_one(name) : print_all(); }
