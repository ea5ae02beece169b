/*
 * framebench limits: what this machine allows, each figure measured here and now.
 *
 * What needs no GPU comes first, since its processes are forked before any driver is loaded.
 */
#include "tools/framebench/limits.h"
#include "tools/framebench/command.h"
#include "tools/framebench/machine.h"

bool command_limits(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, 0, &options, problem)) {
    return false;
  }
  struct results *results = results_new("limits", options.json, machine_describe());
  if (!results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  bool done = limits_host(results, &options, problem) && results_finish(results, problem);
  results_free(results);
  return done;
}
