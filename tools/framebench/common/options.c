#include "tools/framebench/common/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct option long_options[] = {{"json", no_argument, NULL, 'j'},
                                             {"quick", no_argument, NULL, 'q'},
                                             {"backend", required_argument, NULL, 'b'},
                                             {"device", required_argument, NULL, 'd'},
                                             {"witness", no_argument, NULL, 'w'},
                                             {"devices", required_argument, NULL, 'n'},
                                             {NULL, 0, NULL, 0}};

static const char *const backends[] = {[GPU_BACKEND_AUTO] = "auto", [GPU_BACKEND_CUDA] = "cuda", [GPU_BACKEND_CPU] = "cpu"};

static bool parse_backend(const char *text, struct options *options, struct problem *problem) {
  for (unsigned i = 0; i < sizeof backends / sizeof backends[0]; i++) {
    if (strcmp(text, backends[i]) == 0) {
      options->backend = (enum gpu_backend_choice)i;
      return true;
    }
  }
  return problem_set(problem, EXIT_STATUS_USAGE, "give auto, cuda or cpu", "--backend does not take '%s'", text);
}

static bool parse_number(const char *name, const char *text, unsigned long least, unsigned long most, unsigned *number,
                         struct problem *problem) {
  char *end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  if (text[strspn(text, "0123456789")] != '\0' || end == text || errno != 0 || value < least || value > most) {
    return problem_set(problem, EXIT_STATUS_USAGE, "`nvidia-smi -L` lists the devices", "--%s does not take '%s'", name, text);
  }
  *number = (unsigned)value;
  return true;
}

/* The bit that a subcommand needs to accept this option; 0: all accept it. */
static unsigned needs(int option) {
  switch (option) {
  case 'w':
    return OPTION_WITNESS;
  case 'n':
    return OPTION_SCALE;
  default:
    return 0;
  }
}

static const char *name_of(int option) {
  const struct option *entry = long_options;
  while (entry->name && entry->val != option) {
    entry++;
  }
  return entry->name;
}

static bool take(int option, char **arguments, unsigned takes, struct options *options, struct problem *problem) {
  if (needs(option) & ~takes || (option == 'd' && takes & OPTION_SCALE)) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "'%s' does not take --%s", arguments[0], name_of(option));
  }
  switch (option) {
  case 'j':
    options->json = true;
    return true;
  case 'q':
    options->quick = true;
    return true;
  case 'w':
    options->witness = true;
    return true;
  case 'b':
    return parse_backend(optarg, options, problem);
  case 'd':
    return parse_number("device", optarg, 0, 1023, &options->device, problem);
  case 'n':
    return parse_number("devices", optarg, 1, OPTIONS_MOST_DEVICES, &options->devices, problem);
  default:
    return problem_set_option(problem, option, arguments, "see `framebench COMMAND --help`");
  }
}

bool options_read(int count, char **arguments, unsigned takes, struct options *options, struct problem *problem) {
  *options = (struct options){.backend = GPU_BACKEND_AUTO};
  opterr = 0;
  int option;
  while ((option = getopt_long(count, arguments, ":", long_options, NULL)) != -1) {
    if (!take(option, arguments, takes, options, problem)) {
      return false;
    }
  }
  if (takes & (OPTION_FILE | OPTION_SCALE)) {
    const char *file = arguments[optind], *path = file ? realpath(file, options->path) : NULL;
    options->file = path ? path : file;
    optind += file != NULL;
    if (!options->file && takes & OPTION_FILE) {
      return problem_set(problem, EXIT_STATUS_USAGE, NULL, "'%s' needs a file", arguments[0]);
    }
  }
  return optind == count ||
         problem_set(problem, EXIT_STATUS_USAGE, NULL, "'%s' takes nothing more: %s", arguments[0], arguments[optind]);
}

bool options_gpu_problem(const struct gpu_error *error, struct problem *problem) {
  return problem_set(problem, error->no_device ? EXIT_STATUS_NO_DAEMON : EXIT_STATUS_REFUSED,
                     error->remedy[0] ? error->remedy : NULL, "%s", error->text);
}

json_t *options_gpu(const struct options *options) {
  return json_pack("{s:s, s:i}", "backend", backends[options->backend], "device", (int)options->device);
}

struct gpu_device *options_open(const struct options *options, unsigned workers, struct problem *problem) {
  struct gpu_error error = {0};
  gpu_expect(GPU_MAX_SLOTS);
  struct gpu_device *device = gpu_open(options->backend, options->device, workers, &error);
  if (!device) {
    options_gpu_problem(&error, problem);
  }
  return device;
}
