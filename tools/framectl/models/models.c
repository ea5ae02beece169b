/* `framectl models`: lists, installs and removes ONNX Runtime. It does not contact the daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/framectl/command.h"
#include "tools/framectl/common/text.h"
#include "tools/framectl/models/install.h"
#include "tools/framectl/models/runtime.h"

/* -- list ----------------------------------------------------------------------------------------------------------- */

static const char *describe(const struct runtime *runtime, char text[TEXT_ROOM]) {
  snprintf(text, TEXT_ROOM, "ONNX Runtime %s for the CPU%s", runtime->version, runtime->cuda ? " and CUDA" : "");
  return text;
}

/* framed uses the first one that exists. */
static bool list(struct problem *problem) {
  struct table *table = table_new("WHERE FRAMED LOOKS|WHAT IS THERE");
  bool found = false;
  char text[TEXT_ROOM];
  struct runtime runtime;
  for (unsigned i = 0; table && i < RUNTIME_PLACES; i++) {
    char place[PATH_MAX];
    if (runtime_place(i, place)) {
      bool there = runtime_look(place, &runtime);
      table_cell(table, COLOUR_NONE, "%s%s", place, i == 0 ? " (FRAMED_ONNXRUNTIME)" : "");
      table_cell(table, COLOUR_NONE, "%s%s", there ? describe(&runtime, text) : "-", there && !found ? ", which is used" : "");
      found = found || there;
    }
  }
  if (table) {
    bool there = runtime_look_linked(&runtime);
    table_cell(table, COLOUR_NONE, "the linker's folders");
    table_cell(table, COLOUR_NONE, "%s%s", there ? describe(&runtime, text) : "-", there && !found ? ", which is used" : "");
    found = found || there;
  }
  bool printed = table && table_print(table, stdout, "", false);
  table_free(table);
  if (printed && !found) {
    puts("`framectl models install` installs it; only stages `model` need it");
  }
  return printed || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory");
}

/* -- install and remove ------------------------------------------------------------------------------------------------ */

static bool find_target(char target[PATH_MAX], struct problem *problem) {
  return runtime_target(target) || problem_set(problem, EXIT_STATUS_REFUSED, "name a folder in FRAMED_ONNXRUNTIME",
                                               "there is no place for it: HOME is not set");
}

static bool remove_installed(struct problem *problem) {
  char target[PATH_MAX];
  struct runtime runtime;
  if (!find_target(target, problem)) {
    return false;
  }
  if (!runtime_look(target, &runtime)) {
    return problem_set(problem, EXIT_STATUS_REFUSED, "`framectl models` lists what there is", "there is no ONNX Runtime in %s",
                       target);
  }
  if (!runtime_remove(target)) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "cannot remove %s: %s", target, strerror(errno));
  }
  printf("removed %s\n", target);
  return true;
}

bool command_models(const struct invocation *invocation, struct problem *problem) {
  const char *action = invocation->operand;
  unsigned more = invocation->operand_count > 0 ? invocation->operand_count - 1 : 0;
  char target[PATH_MAX];
  bool installs = action && strcmp(action, "install") == 0;
  bool removes = action && strcmp(action, "remove") == 0;
  if (action && !installs && !removes) {
    return problem_set(problem, EXIT_STATUS_USAGE, "write `framectl models`, or with `install` or `remove`",
                       "'models' does not take '%s'", action);
  }
  if ((removes && more > 0) || (!installs && invocation->cuda) || (invocation->cuda && more > 0)) {
    return problem_set(problem, EXIT_STATUS_USAGE,
                       "write `framectl models install --cuda`, or `framectl models install WHEEL...`",
                       invocation->cuda ? "--cuda goes with `install` alone, without wheels" : "'remove' takes nothing more");
  }
  if (installs) {
    return find_target(target, problem) && install_runtime(target, invocation->cuda, invocation->operands + 1, more, problem);
  }
  return removes ? remove_installed(problem) : list(problem);
}
