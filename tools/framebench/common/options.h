/* The options that measuring subcommands share, and the device that they select. */
#ifndef FRAMED_FRAMEBENCH_COMMON_OPTIONS_H
#define FRAMED_FRAMEBENCH_COMMON_OPTIONS_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

#include <jansson.h>
#include <limits.h>

/* Bits for options that only some subcommands accept. SCALE: --devices instead of --device, and an optional file. */
enum option_id { OPTION_WITNESS = 1, OPTION_FILE = 2, OPTION_SCALE = 4 };
enum { OPTIONS_MOST_DEVICES = 64 };

struct options {
  bool json, quick;
  bool witness;     /* compare with CUPTI's records */
  const char *file; /* the operand, or NULL; absolute if the file exists, since the daemon runs in another folder */
  char path[PATH_MAX];
  unsigned devices; /* the most devices; 0: not set */
  enum gpu_backend_choice backend;
  unsigned device;
};

/* `takes`: bits of enum option_id. */
bool options_read(int count, char **arguments, unsigned takes, struct options *options, struct problem *problem);

/* The choice as the section `gpu` of a daemon's configuration; the caller releases it. */
json_t *options_gpu(const struct options *options);

/* Opens the chosen device. On the CPU it has a pool of `workers` (0: one per processor). NULL on a problem. */
struct gpu_device *options_open(const struct options *options, unsigned workers, struct problem *problem);

/* Turns a device's error into a problem. Returns false. */
bool options_gpu_problem(const struct gpu_error *error, struct problem *problem);

#endif
