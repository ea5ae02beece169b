/* The options that the measuring subcommands share, and the device they open. */
#ifndef FRAMED_FRAMEBENCH_COMMON_OPTIONS_H
#define FRAMED_FRAMEBENCH_COMMON_OPTIONS_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

#include <jansson.h>
#include <limits.h>

/* Bits: options that not every subcommand takes. SCALE: --devices instead of --device, and perhaps a file. */
enum option_id { OPTION_WITNESS = 1, OPTION_FILE = 2, OPTION_SCALE = 4 };
enum { OPTIONS_MOST_DEVICES = 64 };

struct options {
  bool json, quick;
  bool witness;     /* compare with CUPTI's records */
  const char *file; /* the operand, where one is taken: whole, if it is there, since a daemon looks for it from elsewhere */
  char path[PATH_MAX];
  unsigned devices; /* at most so many; 0: not given */
  enum gpu_backend_choice backend;
  unsigned device;
};

/* `takes`: of enum option_id. */
bool options_read(int count, char **arguments, unsigned takes, struct options *options, struct problem *problem);

/* The same choice as the section `gpu` of a daemon's configuration; to be released. */
json_t *options_gpu(const struct options *options);

/* Opens the chosen device with a pool of `workers` on the CPU (0: one a processor). NULL on a problem. */
struct gpu_device *options_open(const struct options *options, unsigned workers, struct problem *problem);

/* A device's error as a problem. Returns false. */
bool options_gpu_problem(const struct gpu_error *error, struct problem *problem);

#endif
